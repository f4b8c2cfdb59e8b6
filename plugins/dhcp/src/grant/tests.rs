use super::*;
use crate::wire::{DhcpOptions, MessageType};

/// An answer with these options, and with a mask and a server unless they say otherwise.
fn ack(options: &[(u8, &[u8])]) -> Incoming {
    let mut all = DhcpOptions::default();
    all.set(code::SUBNET_MASK, &[255, 255, 255, 0]);
    all.set(code::SERVER_IDENTIFIER, &[10, 1, 2, 1]);
    options.iter().for_each(|(code, value)| all.set(*code, value));
    Incoming { kind: MessageType::Ack, xid: 1, address: [10, 1, 2, 5].into(), mac: [0; 6], options: all }
}

fn grant(options: &[(u8, &[u8])]) -> Grant {
    Grant::of(&ack(options)).expect("a grant")
}

fn times(options: &[(u8, &[u8])]) -> (Option<u32>, u32, u32) {
    let Grant { seconds, renewal, rebinding, .. } = grant(options);
    (seconds, renewal, rebinding)
}

fn routes(options: &[(u8, &[u8])]) -> Vec<String> {
    let reported = grant(options).routes;
    reported.iter().map(|GrantedRoute { to, prefix, router }| format!("{to}/{prefix} via {router}")).collect()
}

#[test]
fn times_that_the_server_does_not_tell_are_parts_of_the_whole() {
    let number = |seconds: u32| seconds.to_be_bytes();
    assert_eq!(times(&[]), (Some(3600), 1800, 3060));
    assert_eq!(times(&[(code::LEASE_TIME, &number(20))]), (Some(20), 10, 17));
    assert_eq!(times(&[(code::LEASE_TIME, &number(0))]), (Some(1), 0, 0));
    assert_eq!(times(&[(code::LEASE_TIME, &number(u32::MAX))]).0, None);
    let odd = [(code::LEASE_TIME, number(100)), (code::RENEWAL_TIME, number(90)), (code::REBINDING_TIME, number(80))];
    assert_eq!(times(&odd.each_ref().map(|(code, value)| (*code, &value[..]))), (Some(100), 80, 80));
}

#[test]
fn routes_are_those_of_option_121_or_else_of_option_33() {
    let classes =
        [10, 0, 0, 0, 10, 1, 2, 2, 172, 16, 0, 0, 10, 1, 2, 3, 192, 169, 1, 0, 10, 1, 2, 4, 0, 0, 0, 0, 1, 1, 1, 1];
    let of_classes = ["10.0.0.0/8 via 10.1.2.2", "172.16.0.0/16 via 10.1.2.3", "192.169.1.0/24 via 10.1.2.4"];
    assert_eq!(routes(&[(code::STATIC_ROUTE, &classes)]), of_classes);
    let classless = [0, 10, 1, 2, 254, 24, 10, 10, 10, 10, 1, 2, 253, 32, 169, 254, 169, 254, 0, 0, 0, 0];
    let all = [(code::STATIC_ROUTE, &classes[..]), (code::CLASSLESS_ROUTE, &classless[..])];
    let want = ["0.0.0.0/0 via 10.1.2.254", "10.10.10.0/24 via 10.1.2.253", "169.254.169.254/32 via 0.0.0.0"];
    assert_eq!((routes(&all), grant(&all).is_classless), (want.map(str::to_owned).into(), true));
    for torn in [&classless[..classless.len() - 1], &[33, 1, 1, 1, 1, 1, 1, 1, 1, 1], &[]] {
        assert_eq!(routes(&[(code::STATIC_ROUTE, &classes), (code::CLASSLESS_ROUTE, torn)]), of_classes);
    }
}

#[test]
fn names_and_numbers_of_the_network_are_read_if_they_can_be_used() {
    let reported = grant(&[
        (code::ROUTER, &[10, 1, 2, 1, 10, 1, 2, 2, 7]),
        (code::DOMAIN_NAME_SERVER, &[192, 0, 2, 53]),
        (code::DOMAIN_NAME, b"example.org.\0"),
        (code::INTERFACE_MTU, &1400_u16.to_be_bytes()),
        (code::DOMAIN_SEARCH, b"\x03eng\x07example\x03org\0\x09marketing\xc0\x04"),
    ]);
    assert_eq!(reported.routers, [Ipv4Addr::new(10, 1, 2, 1), Ipv4Addr::new(10, 1, 2, 2)]);
    assert_eq!(reported.nameservers, [Ipv4Addr::new(192, 0, 2, 53)]);
    assert_eq!((reported.domain.as_deref(), reported.mtu), (Some("example.org"), Some(1400)));
    assert_eq!(reported.search, ["eng.example.org", "marketing.example.org"]);
    for odd in [&b"a b"[..], b"a\nnameserver 1.1.1.1", b"\xff", b""] {
        assert_eq!(grant(&[(code::DOMAIN_NAME, odd)]).domain, None);
    }
    for odd in [&b"\xc0\x00"[..], b"\x01a\xc0\x00", b"\x05abc", b"\x80", b"\x01a\xc0"] {
        assert_eq!(grant(&[(code::DOMAIN_SEARCH, odd)]).search, [""; 0], "{odd:?}");
    }
    assert_eq!(grant(&[(code::INTERFACE_MTU, &[0, 67])]).mtu, None);
}

#[test]
fn an_answer_without_what_a_container_needs_is_none() {
    let refused = |options: &[(u8, &[u8])]| Grant::of(&ack(options)).expect_err("refused");
    assert_eq!(refused(&[(code::SUBNET_MASK, &[255])]), "DHCP option Subnet Mask not found in DHCPACK");
    assert_eq!(refused(&[(code::SUBNET_MASK, &[255, 0, 255, 0])]), "DHCP option Subnet Mask 255.0.255.0 is no prefix");
    assert_eq!(refused(&[(code::SERVER_IDENTIFIER, &[])]), "DHCP option Server Identifier not found in DHCPACK");
    let without = Incoming { address: Ipv4Addr::UNSPECIFIED, ..ack(&[]) };
    assert_eq!(Grant::of(&without), Err("DHCPACK has no address".to_owned()));
}

fn result_routes(options: &[(u8, &[u8])], priority: i64) -> String {
    let routes = grant(options).result(priority).routes;
    let texts = routes.iter().map(|Route { dst, gw, mtu, priority, scope, .. }| {
        format!("{dst} {} {mtu} {priority} {scope:?}", gw.expect("a router"))
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn classless_routes_replace_the_default_route_and_those_of_option_33_do_not() {
    let router = (code::ROUTER, &[10, 1, 2, 1, 10, 1, 2, 2][..]);
    let mtu = (code::INTERFACE_MTU, &[5, 120][..]);
    let of_33 = (code::STATIC_ROUTE, &[10, 9, 0, 0, 10, 1, 2, 9][..]);
    let want = "10.0.0.0/8 10.1.2.9 1400 0 None, 0.0.0.0/0 10.1.2.1 1400 0 None";
    assert_eq!(result_routes(&[router, mtu, of_33], 0), want);
    let of_121 = (code::CLASSLESS_ROUTE, &[32, 169, 254, 169, 254, 0, 0, 0, 0][..]);
    assert_eq!(result_routes(&[router, of_33, of_121], 7), "169.254.169.254/32 0.0.0.0 0 7 Some(253)");
}
