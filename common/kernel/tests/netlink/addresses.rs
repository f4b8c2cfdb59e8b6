//! Addresses: made, told, removed, and looked for on the network.

use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_model::plan::Dad;

use crate::netlink::{Namespace, cidr, errno};

#[test]
fn addresses_are_added_listed_and_removed() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    for text in ["2001:db8::7/64", "10.1.2.7/24", "10.9.0.0/31", "10.9.0.9/32"] {
        host.socket.add_address(index, cidr(text), Dad::Skip).expect(text);
    }
    let shown = host.run("ip -o address show dev eth0");
    assert!(shown.contains("inet 10.1.2.7/24 brd 10.1.2.255 scope global"), "{shown}");
    assert!(
        shown.contains("inet 10.9.0.0/31 scope global") && shown.contains("inet 10.9.0.9/32 scope global"),
        "{shown}"
    );
    assert_eq!(host.addresses(index, Some(Family::V4)), ["10.1.2.7/24", "10.9.0.0/31", "10.9.0.9/32"]);
    let all = host.addresses(index, None);
    assert_eq!(all[..3], ["10.1.2.7/24", "10.9.0.0/31", "10.9.0.9/32"]);
    assert!(all[3..].contains(&"2001:db8::7/64".to_owned()), "{all:?}");
    assert_eq!(host.addresses(1, None), ["127.0.0.1/8", "::1/128"]);
    let everywhere = host.socket.addresses(None, Some(Family::V4)).expect("addresses");
    assert_eq!(everywhere.len(), 4, "those of lo and eth0: {everywhere:?}");

    host.socket.remove_address(index, cidr("10.1.2.7/24")).expect("removed");
    host.socket.remove_address(index, cidr("10.1.2.7/24")).expect("absence is no error");
    host.socket.remove_address(index, cidr("2001:db8::7/64")).expect("removed");
    host.socket.remove_address(index, cidr("2001:db8::7/64")).expect("absence is no error");
    host.socket.remove_address(4711, cidr("10.1.2.7/24")).expect("nor is that of the link");
    assert_eq!(host.addresses(index, Some(Family::V4)), ["10.9.0.0/31", "10.9.0.9/32"]);
    assert!(!host.addresses(index, Some(Family::V6)).contains(&"2001:db8::7/64".to_owned()));
}

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
}

#[test]
fn duplicate_address_detection_is_performed_or_not() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    host.socket.add_address(index, cidr("2001:db8::1/64"), Dad::Skip).expect("added");
    host.socket.add_address(index, cidr("2001:db8::2/64"), Dad::Perform).expect("added");
    let found = host.socket.addresses(index, Some(Family::V6)).expect("addresses");
    let tentative = |text| found.iter().find(|address| address.cidr == cidr(text)).map(|address| address.tentative);
    assert_eq!((tentative("2001:db8::1/64"), tentative("2001:db8::2/64")), (Some(false), Some(true)));
    assert!(found.iter().all(|address| !address.dad_failed));
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

#[test]
fn a_dump_of_many_datagrams_is_complete() {
    let mut host = Namespace::enter();
    let index = host.bridge("br0").index;
    let text = |number: u32| format!("10.7.{}.{}/32", number / 200, number % 200);
    for number in 0..1500 {
        host.socket.add_address(index, cidr(&text(number)), Dad::Skip).expect("added");
    }
    let want: Vec<_> = (0..1500).map(text).collect();
    assert_eq!(host.addresses(index, Some(Family::V4)), want);
}

#[test]
fn an_error_about_a_link_names_it() {
    let mut host = Namespace::enter();
    let index = host.bridge("br0").index;
    std::fs::write("/proc/sys/net/ipv6/conf/br0/disable_ipv6", "1").expect("turned off");
    let error = host.socket.add_address(index, cidr("fd00::1/64"), Dad::Skip).expect_err("refused");
    assert_eq!(error.to_string(), "failed to add address fd00::1/64 to br0");
    let error = host.socket.set_mtu(index, 1_000_000).expect_err("refused");
    assert_eq!(error.to_string(), "failed to set the MTU of br0 to 1000000");
    let error = host.socket.set_mtu(4711, 1500).expect_err("refused");
    assert_eq!(error.to_string(), "failed to set the MTU of link 4711 to 1500");
}
