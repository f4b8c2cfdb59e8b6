//! Which connections are stale. The host has 192.0.2.1, 127.0.0.0/8 and 2001:db8::1, and the container
//! that is mapped or unmapped 10.88.0.5 and fd00:88::5.

use std::convert::Infallible;

use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("address and port")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn port(host_ip: Option<&str>, port: u16, target: &str) -> UdpPort {
    UdpPort { host_ip: host_ip.map(ip), port, target: socket(target) }
}

fn stale(change: PortChange, ports: &[UdpPort]) -> StaleFlows {
    StaleFlows::new(change, ports[0].target.ip(), ports.to_vec()).expect("there are ports")
}

fn is_local(address: IpAddr) -> Result<bool, Infallible> {
    Ok(address.is_loopback() || [ip("192.0.2.1"), ip("2001:db8::1")].contains(&address))
}

/// The connections, each `<to> <answered by>`, that are taken for stale.
fn taken<'a>(stale: &StaleFlows, flows: &[&'a str]) -> Vec<&'a str> {
    let contains = |text: &&&str| {
        let (to, answered_by) = text.split_once(' ').expect("two addresses");
        stale.contain(&Flow { to: socket(to), answered_by: socket(answered_by) }, is_local) == Ok(true)
    };
    flows.iter().filter(contains).copied().collect()
}

#[test]
fn a_new_mapping_makes_all_stale_that_leads_elsewhere() {
    let flows = [
        "192.0.2.1:8080 10.88.0.4:80",
        "192.0.2.1:8080 192.0.2.1:8080",
        "127.0.0.1:8080 127.0.0.1:8080",
        "192.0.2.1:8080 10.88.0.5:81",
        "192.0.2.1:8080 10.88.0.5:80",
        "192.0.2.1:8081 10.88.0.4:80",
        "198.51.100.7:8080 198.51.100.7:8080",
        "10.88.0.5:8080 10.88.0.5:8080",
    ];
    let mapped = stale(PortChange::Mapped, &[port(None, 8080, "10.88.0.5:80")]);
    assert_eq!(taken(&mapped, &flows), flows[..4]);
}

#[test]
fn the_end_of_a_mapping_makes_all_stale_that_leads_to_the_container() {
    let flows = [
        "192.0.2.1:8080 10.88.0.5:80",
        "127.0.0.1:8080 10.88.0.5:80",
        "192.0.2.1:8080 10.88.0.5:79",
        "192.0.2.1:8080 10.88.0.4:80",
        "192.0.2.1:8080 192.0.2.1:8080",
        "192.0.2.1:9090 10.88.0.5:80",
        "198.51.100.7:8080 10.88.0.5:80",
        "10.88.0.5:8080 10.88.0.5:8080",
    ];
    let unmapped = stale(PortChange::Unmapped, &[port(None, 8080, "10.88.0.5:80")]);
    assert_eq!(taken(&unmapped, &flows), flows[..3]);
}

#[test]
fn a_mapping_of_one_address_concerns_that_address_alone() {
    let flows = ["192.0.2.200:53 192.0.2.200:53", "192.0.2.53:53 192.0.2.53:53", "192.0.2.1:53 192.0.2.1:53"];
    let mapped = stale(PortChange::Mapped, &[port(Some("192.0.2.200"), 53, "10.88.0.5:53")]);
    assert_eq!(taken(&mapped, &flows), flows[..1]);
    let led = ["192.0.2.200:53 10.88.0.5:53", "192.0.2.53:53 10.88.0.5:53"];
    let unmapped = stale(PortChange::Unmapped, &[port(Some("192.0.2.200"), 53, "10.88.0.5:53")]);
    assert_eq!(taken(&unmapped, &led), led[..1]);
}

#[test]
fn of_two_mappings_that_take_a_connection_the_first_decides_where_it_leads() {
    let ports = [port(None, 53, "10.88.0.5:53"), port(Some("192.0.2.1"), 53, "10.88.0.5:5353")];
    let flows = ["192.0.2.1:53 10.88.0.5:5353", "192.0.2.1:53 10.88.0.5:53"];
    assert_eq!(taken(&stale(PortChange::Mapped, &ports), &flows), flows[..1]);
}

#[test]
fn both_families_are_judged_alike() {
    let flows = ["[2001:db8::1]:8080 [fd00:88::4]:80", "[2001:db8::9]:8080 [2001:db8::9]:8080"];
    let mapped = stale(PortChange::Mapped, &[port(None, 8080, "[fd00:88::5]:80")]);
    assert_eq!(taken(&mapped, &flows), flows[..1]);
    assert_eq!(mapped.family(), Family::V6);
}

#[test]
fn whose_an_address_is_is_asked_only_when_it_decides() {
    let asked = |_| Err("asked");
    let flow = Flow { to: socket("192.0.2.1:8080"), answered_by: socket("10.88.0.5:80") };
    let mapped = stale(PortChange::Mapped, &[port(None, 8080, "10.88.0.5:80")]);
    assert_eq!(mapped.contain(&flow, asked), Ok(false));
    let unmapped = stale(PortChange::Unmapped, &[port(None, 8080, "10.88.0.5:80")]);
    assert_eq!(unmapped.contain(&flow, asked), Err("asked"));
    let fixed = stale(PortChange::Unmapped, &[port(Some("192.0.2.1"), 8080, "10.88.0.5:80")]);
    assert_eq!(fixed.contain(&flow, asked), Ok(true));
}

#[test]
fn what_all_have_in_common_is_told() {
    let one = port(None, 53, "10.88.0.5:53");
    let other = port(Some("192.0.2.1"), 54, "10.88.0.5:54");
    let mapped = stale(PortChange::Mapped, &[one, port(Some("192.0.2.1"), 53, "10.88.0.5:53")]);
    assert_eq!((mapped.ports(), mapped.only_host_ip(), mapped.only_led_to()), (vec![53], None, None));
    let unmapped = stale(PortChange::Unmapped, &[other, one]);
    assert_eq!((unmapped.ports(), unmapped.only_host_ip()), (vec![53, 54], None));
    assert_eq!(unmapped.only_led_to(), Some(ip("10.88.0.5")));
    assert_eq!(unmapped.to_string(), "forget UDP flows to *:53 192.0.2.1:54 answered by 10.88.0.5");
    let elsewhere = port(Some("192.0.2.200"), 53, "10.88.0.5:53");
    for (ports, want) in [
        ([other, other], Some(ip("192.0.2.1"))),
        ([other, elsewhere], None),
        ([one, other], None),
        ([other, one], None),
    ] {
        assert_eq!(stale(PortChange::Mapped, &ports).only_host_ip(), want, "{ports:?}");
    }
    assert_eq!(StaleFlows::new(PortChange::Mapped, ip("10.88.0.5"), Vec::new()), None);
}

#[test]
fn every_one_of_many_ports_is_found_and_none_between_them() {
    let ports: Vec<UdpPort> = (0..1000).rev().map(|n| port(None, 20_000 + 2 * n, "10.88.0.5:53")).collect();
    let mapped = stale(PortChange::Mapped, &ports);
    for number in 19_990..22_010 {
        let to = SocketAddr::new(ip("192.0.2.1"), number);
        let wanted = (20_000..22_000).contains(&number) && number % 2 == 0;
        assert_eq!(mapped.contain(&Flow { to, answered_by: to }, is_local), Ok(wanted), "{number}");
    }
}
