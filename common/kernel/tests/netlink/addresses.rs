//! Addresses: made, told, removed, and looked for on the network.

use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_model::plan::Dad;

use crate::netlink::{Namespace, cidr, errno};

#[test]
fn a_second_address_is_refused_in_the_words_of_the_kernel() {
    let mut host = Namespace::enter();
    let index = host.bridge("br0").index;
    host.socket.add_address(index, cidr("10.1.2.3/24"), Dad::Skip).expect("added");
    let error = host.socket.add_address(index, cidr("10.1.2.3/24"), Dad::Skip).expect_err("refused");
    assert_eq!(error.to_string(), format!("failed to add address 10.1.2.3/24 to link {index}"));
    assert_eq!((error.errno(), error.code()), (Some(libc::EEXIST), Code::Kernel));
    assert_eq!(error.cause().to_string(), "file exists");
    assert!(
        error.details().starts_with("file exists: ") && error.details().contains("lready assigned"),
        "{}",
        error.details()
    );
    assert_eq!(errno(host.socket.add_address(4711, cidr("10.1.2.3/24"), Dad::Skip)), Some(libc::ENODEV));
    assert_eq!(host.socket.addresses(4711, Some(Family::V4)).expect("an answer"), []);
    for _ in 0..2 {
        host.socket.remove_address(index, cidr("10.1.2.3/24")).expect("removed, or absent");
    }
    host.socket.remove_address(4711, cidr("10.1.2.3/24")).expect("nor is absence of the link an error");
    let error = host.socket.set_mtu(index, 1_000_000).expect_err("refused");
    assert_eq!(error.to_string(), "failed to set the MTU of br0 to 1000000");
    let error = host.socket.set_mtu(4711, 1500).expect_err("refused");
    assert_eq!(error.to_string(), "failed to set the MTU of link 4711 to 1500");
}

#[test]
fn a_skipped_detection_stays_skipped_when_the_link_comes_up_later() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    host.socket.set_link_down(index).expect("down");
    host.socket.add_address(index, cidr("2001:db8::1/64"), Dad::Skip).expect("added");
    host.socket.set_link_up(index).expect("up");
    let found = host.socket.addresses(index, Some(Family::V6)).expect("addresses");
    let address = found.iter().find(|address| address.cidr == cidr("2001:db8::1/64")).expect("listed");
    assert!(!address.tentative);
}
