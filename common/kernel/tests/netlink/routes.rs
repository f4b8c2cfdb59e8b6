//! Routes: made, told, removed, and the way to an address.

use std::net::Ipv6Addr;
use std::thread;
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_core::error::Failure;
use cni_core::family::Family;
use cni_kernel::netlink::Cause;
use cni_model::plan::{Dad, NewRoute};

use crate::netlink::{MAIN, Namespace, cidr, errno, ip, route};

#[test]
fn routes_are_added_listed_and_removed() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    host.socket.add_address(link, cidr("10.1.2.7/24"), Dad::Skip).expect("an address");
    let default =
        NewRoute { mtu: Some(1300), advmss: Some(1200), priority: Some(5), ..route("0.0.0.0/0", Some("10.1.2.1")) };
    let elsewhere = NewRoute { table: Some(1000), ..route("10.3.0.0/16", Some("10.1.2.1")) };
    let on_link = NewRoute { scope: Some(253), table: Some(100), ..route("10.4.0.0/16", None) };
    let from = NewRoute { source: Some(ip("10.1.2.7")), ..route("10.2.0.0/16", Some("10.1.2.1")) };
    let beyond = NewRoute { onlink: true, table: Some(7), ..route("10.6.0.0/16", Some("10.99.0.1")) };
    let routes = [default, elsewhere, on_link, from, beyond];
    for route in &routes {
        host.socket.add_route(link, route).expect("added");
    }
    let shown = host.run("ip -d route show table all");
    assert!(
        shown.contains(
            "unicast default via 10.1.2.1 dev eth0 table main proto boot scope global metric 5 mtu 1300 advmss 1200"
        ),
        "{shown}"
    );
    assert!(shown.contains("unicast 10.3.0.0/16 via 10.1.2.1 dev eth0 table 1000 proto boot scope global"), "{shown}");
    assert!(shown.contains("unicast 10.4.0.0/16 dev eth0 table 100 proto boot scope link"), "{shown}");
    assert!(
        shown.contains("10.2.0.0/16 via 10.1.2.1 dev eth0 table main proto boot scope global src 10.1.2.7"),
        "{shown}"
    );
    assert!(shown.contains("10.6.0.0/16 via 10.99.0.1 dev eth0 table 7 proto boot scope global onlink"), "{shown}");

    let gateway = || vec!["10.1.2.1".to_owned()];
    let (own, all) = (("10.1.2.0/24".to_owned(), vec![]), ("0.0.0.0/0".to_owned(), gateway()));
    let to_ten_two = ("10.2.0.0/16".to_owned(), gateway());
    assert_eq!(host.routes(Family::V4, MAIN), [all.clone(), own.clone(), to_ten_two]);
    assert_eq!(host.routes(Family::V4, Some(1000)), [("10.3.0.0/16".to_owned(), gateway())]);
    assert_eq!(host.routes(Family::V4, Some(4711)), []);
    let everywhere = host.socket.routes(Family::V4, None).expect("routes");
    let tables: Vec<_> = everywhere.iter().filter(|route| route.links == [link]).map(|route| route.table).collect();
    assert!([100, 254, 255, 1000].iter().all(|table| tables.contains(table)), "{tables:?}");

    for route in routes.iter().chain(&routes) {
        host.socket.remove_route(link, route).expect("removed, or absent");
    }
    for table in [7, 100, 1000] {
        assert_eq!(host.routes(Family::V4, Some(table)), vec![], "{table}");
    }
    assert_eq!(host.routes(Family::V4, MAIN), [own]);
}

#[test]
fn a_destination_may_have_several_gateways() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    for text in ["10.1.2.7/24", "2001:db8::7/64"] {
        host.socket.add_address(link, cidr(text), Dad::Skip).expect("an address");
    }
    for gateway in ["10.1.2.1", "10.1.2.2"] {
        host.socket.add_route(link, &route("10.5.0.0/16", Some(gateway))).expect("added");
    }
    for gateway in ["2001:db8::1", "2001:db8::2"] {
        host.socket.add_route(link, &route("2001:db8:5::/48", Some(gateway))).expect("added");
    }
    let of = |gateway: &str| ("10.5.0.0/16".to_owned(), vec![gateway.to_owned()]);
    let v4: Vec<_> = host.routes(Family::V4, MAIN).into_iter().filter(|(dst, _)| dst == "10.5.0.0/16").collect();
    assert_eq!(v4, [of("10.1.2.2"), of("10.1.2.1")], "two routes, the last one first");
    let v6: Vec<_> = host.socket.routes(Family::V6, MAIN).expect("routes");
    let v6: Vec<_> = v6.iter().filter(|route| route.dst == cidr("2001:db8:5::/48")).collect();
    assert_eq!(v6.len(), 1, "one multipath route: {v6:?}");
    assert_eq!((v6[0].gateways.clone(), v6[0].links.clone()), (vec![ip("2001:db8::1"), ip("2001:db8::2")], vec![link]));
}

#[test]
fn impossible_routes_are_refused() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    host.socket.add_address(link, cidr("10.1.2.7/24"), Dad::Skip).expect("an address");
    let possible = route("10.5.0.0/16", Some("10.1.2.1"));
    host.socket.add_route(link, &possible).expect("added");
    assert_eq!(errno(host.socket.add_route(link, &possible)), Some(libc::EEXIST));
    assert_eq!(errno(host.socket.add_route(link, &route("10.6.0.1/16", None))), Some(libc::EINVAL), "host bits");
    let error = host.socket.add_route(link, &route("10.6.0.0/16", Some("10.99.0.1"))).expect_err("gateway on no link");
    assert_eq!(error.to_string(), format!("failed to add route 10.6.0.0/16 via 10.99.0.1 through link {link}"));
    assert_eq!(error.errno(), Some(libc::ENETUNREACH));
    assert!(error.details().starts_with("network is unreachable: "), "{}", error.details());
    let error = host.socket.add_route(link, &route("10.6.0.0/16", Some("fe80::1"))).expect_err("mixed families");
    assert_eq!((error.errno(), error.cause()), (None, &Cause::MixedFamilies));
}

#[test]
fn the_kernels_own_route_is_removed_and_no_other_to_the_same_network() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    for (address, network, gateway) in
        [("10.1.2.7/24", "10.1.2.0/24", "10.1.2.1"), ("2001:db8::7/64", "2001:db8::/64", "2001:db8::1")]
    {
        let family = cidr(network).family();
        host.socket.add_address(link, cidr(address), Dad::Skip).expect("an address");
        host.socket.add_route(link, &route(network, Some(gateway))).expect("beside the kernel's");
        for there in [true, false] {
            assert_eq!(host.socket.remove_connected_route(link, cidr(network)).expect("an answer"), there);
            let mut left = host.routes(family, MAIN);
            left.retain(|(dst, _)| dst == network);
            assert_eq!(left, [(network.to_owned(), vec![gateway.to_owned()])]);
        }
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
fn the_way_to_an_address_is_its_output_link() {
    let mut host = Namespace::enter();
    let link = host.veth("eth0", "eth1").index;
    for text in ["10.1.2.7/24", "2001:db8::7/64"] {
        host.socket.add_address(link, cidr(text), Dad::Skip).expect("an address");
    }
    host.run("ip route add unreachable 10.8.0.0/16");
    host.run("ip route add unreachable 2001:db8:8::/48");
    for (address, want) in [
        ("10.1.2.99", Some(link)),
        ("2001:db8::99", Some(link)),
        ("10.1.2.7", Some(1)),
        ("10.77.0.1", None),
        ("2001:db8:77::1", None),
        ("10.8.0.1", None),
        ("2001:db8:8::1", None),
    ] {
        assert_eq!(host.socket.route_to(ip(address)).expect("an answer"), want, "{address}");
    }
}

#[test]
fn an_address_is_local_on_the_links_that_have_it() {
    let mut host = Namespace::enter();
    let [first, second, third] = ["eth0", "eth2", "eth4"].map(|name| host.veth(name, &format!("{name}p")).index);
    for link in [first, second] {
        host.socket.add_address(link, cidr("2001:db8::7/128"), Dad::Skip).expect("an address");
    }
    let mut is_local =
        |link| host.socket.is_local_on(link, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)).expect("an answer");
    let limit = Instant::now() + Duration::from_secs(20);
    while !(is_local(first) && is_local(second)) {
        assert!(Instant::now() < limit, "not local after 20 seconds");
        thread::sleep(Duration::from_millis(2));
    }
    assert!(!is_local(third), "of other links");
}
