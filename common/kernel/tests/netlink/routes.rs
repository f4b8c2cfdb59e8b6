//! Routes: made, told, removed, and the way to an address.

use std::net::Ipv6Addr;
use std::thread;
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_model::plan::{Dad, NewRoute};

use crate::netlink::{Namespace, cidr, ip, route};

#[test]
fn a_route_may_have_a_source_and_a_gateway_beyond_the_networks() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    host.socket.add_address(link, cidr("10.1.2.7/24"), Dad::Skip).expect("an address");
    let beyond = NewRoute { onlink: true, source: Some(ip("10.1.2.7")), ..route("10.6.0.0/16", Some("10.99.0.1")) };
    host.socket.add_route(link, &beyond).expect("added");
    let shown = host.run("ip route show");
    assert!(shown.contains("10.6.0.0/16 via 10.99.0.1 dev eth0 src 10.1.2.7 onlink"), "{shown}");
    for _ in 0..2 {
        host.socket.remove_route(link, &beyond).expect("removed, or absent");
    }
}

#[test]
fn a_route_to_exactly_an_address_is_distinguished_from_one_to_its_network() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    let mut exact = |address| host.socket.exact_route(ip(address)).expect("an answer").map(|route| route.links);
    assert_eq!((exact("10.1.2.7"), exact("2001:db8::7")), (None, None), "there is no route at all");
    for (address, other, refused) in
        [("10.1.2.7", "10.1.2.8", "10.1.2.9"), ("2001:db8::7", "2001:db8::8", "2001:db8::9")]
    {
        let network = if address.contains(':') { "2001:db8::/64" } else { "10.1.2.0/24" };
        host.socket.add_route(link, &route(network, None)).expect("added");
        host.socket.add_route(link, &NewRoute::to(Cidr::host(ip(address)))).expect("added");
        host.run(&format!("ip route add unreachable {refused}"));
        let mut exact = |address| host.socket.exact_route(ip(address)).expect("an answer").map(|route| route.links);
        assert_eq!((exact(address), exact(other), exact(refused)), (Some(vec![link]), None, None));
    }
}

#[test]
fn an_address_is_local_on_the_links_that_have_it() {
    let mut host = Namespace::enter();
    let [first, second, third] = ["eth0", "eth2", "eth4"].map(|name| host.veth(name, &format!("{name}p")).index);
    for link in [first, second] {
        host.socket.add_address(link, cidr("2001:db8::7/128"), Dad::Skip).expect("an address");
    }
    let mut is_local = |link| {
        host.socket.is_local(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into(), Some(link)).expect("an answer")
    };
    let limit = Instant::now() + Duration::from_secs(20);
    while !(is_local(first) && is_local(second)) {
        assert!(Instant::now() < limit, "not local after 20 seconds");
        thread::sleep(Duration::from_millis(2));
    }
    assert!(!is_local(third), "of other links");
}
