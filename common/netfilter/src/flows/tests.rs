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

/// The connections, each `<to> <answered by>`, that are treated as stale.
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
fn the_owner_of_an_address_is_asked_only_when_it_decides() {
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
fn what_all_have_in_common_is_reported() {
    let one = port(None, 53, "10.88.0.5:53");
    let other = port(Some("192.0.2.1"), 54, "10.88.0.5:54");
    let filter = |to: Option<&str>, ports: &[u16], led_to: Option<&str>| FlowFilter {
        family: Family::V4,
        to: to.map(ip),
        ports: ports.to_vec(),
        led_to: led_to.map(ip),
    };
    let mapped = stale(PortChange::Mapped, &[one, port(Some("192.0.2.1"), 53, "10.88.0.5:53")]);
    assert_eq!(mapped.filter(), filter(None, &[53], None));
    let unmapped = stale(PortChange::Unmapped, &[other, one]);
    assert_eq!(unmapped.filter(), filter(None, &[53, 54], Some("10.88.0.5")));
    assert_eq!(unmapped.to_string(), "forget UDP flows to *:53 192.0.2.1:54 answered by 10.88.0.5");
    let elsewhere = port(Some("192.0.2.200"), 53, "10.88.0.5:53");
    for (ports, want) in
        [([other, other], Some("192.0.2.1")), ([other, elsewhere], None), ([one, other], None), ([other, one], None)]
    {
        assert_eq!(stale(PortChange::Mapped, &ports).filter().to, want.map(ip), "{ports:?}");
    }
    assert_eq!(StaleFlows::new(PortChange::Mapped, ip("10.88.0.5"), Vec::new()), None);
}

/// The filters, each `<to>:<port> <led to>`, of a host with some networks; `None` where there are none.
fn filters(stale: &StaleFlows, networks: &[&str]) -> Option<Vec<String>> {
    let networks = networks.iter().map(|network| network.parse().expect("a network")).collect();
    let address = |address: Option<IpAddr>| address.map_or_else(|| "*".to_owned(), |address| address.to_string());
    let text = |filter: FlowFilter| format!("{}:{:?} {}", address(filter.to), filter.ports, address(filter.led_to));
    let filters = stale.filters(|| Ok::<_, Infallible>(networks)).expect("no failure");
    filters.map(|filters| filters.into_iter().map(text).collect())
}

#[test]
fn a_new_mapping_is_a_filter_for_each_address_of_the_host() {
    let ports = [port(None, 53, "10.88.0.5:53"), port(Some("192.0.2.200"), 54, "10.88.0.5:54")];
    let mapped = stale(PortChange::Mapped, &ports);
    let want = ["127.0.0.1:[53] *", "192.0.2.1:[53] *", "192.0.2.200:[54] *"];
    let networks = ["127.0.0.0/8", "127.0.0.1/32", "192.0.2.1/32"];
    assert_eq!(filters(&mapped, &networks), Some(want.map(str::to_owned).to_vec()));
    assert_eq!(filters(&mapped, &["127.0.0.1/32", "198.51.100.0/24"]), None, "too many addresses");
    assert_eq!(filters(&mapped, &[]), Some(vec!["192.0.2.200:[54] *".to_owned()]));
}

#[test]
fn the_end_of_a_mapping_is_a_filter_for_each_port() {
    let ports = [port(None, 53, "10.88.0.5:53"), port(Some("192.0.2.200"), 54, "10.88.0.5:54")];
    let want = ["*:[53] 10.88.0.5", "192.0.2.200:[54] 10.88.0.5"];
    assert_eq!(filters(&stale(PortChange::Unmapped, &ports), &[]), Some(want.map(str::to_owned).to_vec()));
}

#[test]
fn the_addresses_of_the_host_are_asked_for_only_when_they_decide() {
    let of_one_address = [port(Some("192.0.2.1"), 53, "10.88.0.5:53")];
    for change in [PortChange::Mapped, PortChange::Unmapped] {
        let filters = stale(change, &of_one_address).filters(|| Err("asked"));
        assert_eq!(filters.map(|filters| filters.map(|filters| filters.len())), Ok(Some(1)), "{change:?}");
    }
    let mapped = stale(PortChange::Mapped, &[port(None, 53, "10.88.0.5:53")]);
    assert_eq!(mapped.filters(|| Err("asked")), Err("asked"));
}

/// A mapping that is restored must not take what leads right, and the kernel cannot compare IPv6 addresses.
#[test]
fn what_no_filter_can_say_has_none() {
    let restored = stale(PortChange::Restored, &[port(Some("192.0.2.1"), 53, "10.88.0.5:53")]);
    let of_ipv6 = stale(PortChange::Unmapped, &[port(Some("2001:db8::1"), 53, "[fd00:88::5]:53")]);
    assert_eq!((filters(&restored, &[]), filters(&of_ipv6, &[])), (None, None));
    assert_eq!(taken(&restored, &["192.0.2.1:53 10.88.0.5:53", "192.0.2.1:53 10.88.0.4:53"]).len(), 1);
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

#[test]
fn connections_that_others_keep_are_not_stale() {
    let flows = ["192.0.2.1:8080 10.88.0.4:80", "127.0.0.1:8080 10.88.0.3:80", "192.0.2.1:8081 10.88.0.4:81"];
    let ports = [port(None, 8080, "10.88.0.5:80"), port(None, 8081, "10.88.0.5:81")];
    let kept = |kept: &[&str]| {
        let kept: Vec<SocketAddr> = kept.iter().map(|text| socket(text)).collect();
        stale(PortChange::Mapped, &ports).without(&kept)
    };
    for (others, want) in [
        (&["192.0.2.1:8080"][..], &[flows[1], flows[2]][..]),
        (&["0.0.0.0:8080"], &[flows[2]]),
        (&["192.0.2.1:8080", "192.0.2.1:8081"], &[flows[1]]),
        (&["192.0.2.2:8080", "[::]:8080", "0.0.0.0:8082"], &flows),
    ] {
        assert_eq!(taken(&kept(others).expect("some are stale"), &flows), want, "{others:?}");
    }
    assert_eq!(kept(&["0.0.0.0:8080", "0.0.0.0:8081"]), None);
    let one = stale(PortChange::Mapped, &[port(Some("192.0.2.1"), 8080, "10.88.0.5:80")]);
    assert_eq!(one.clone().without(&[socket("192.0.2.1:8080")]), None);
    assert!(one.without(&[socket("192.0.2.2:8080")]).is_some());
    let partly = kept(&["192.0.2.1:8080"]).expect("some are stale");
    assert_eq!(
        partly.to_string(),
        "forget UDP flows to *:8080 *:8081 not answered by 10.88.0.5 except to 192.0.2.1:8080"
    );
    let want = ["127.0.0.1:[8080] *", "127.0.0.1:[8081] *", "192.0.2.1:[8081] *"];
    assert_eq!(filters(&partly, &["127.0.0.1/32", "192.0.2.1/32"]), Some(want.map(str::to_owned).to_vec()));
}

#[test]
fn one_filter_matches_what_several_changes_make_stale() {
    assert_eq!(StaleFlows::common_filter(&[]), None);
    let one = stale(PortChange::Unmapped, &[port(Some("192.0.2.1"), 53, "10.88.0.5:53")]);
    let same_address = stale(PortChange::Unmapped, &[port(Some("192.0.2.1"), 52, "10.88.0.5:53")]);
    let another = stale(PortChange::Restored, &[port(None, 54, "10.88.0.6:53"), port(None, 53, "10.88.0.6:54")]);
    assert_eq!(StaleFlows::common_filter(&[&one]), Some(one.filter()));
    let common = |ports: &[u16], to, led_to| FlowFilter { family: Family::V4, to, ports: ports.to_vec(), led_to };
    let (host, container) = (Some(ip("192.0.2.1")), Some(ip("10.88.0.5")));
    assert_eq!(StaleFlows::common_filter(&[&one, &same_address]), Some(common(&[52, 53], host, container)));
    assert_eq!(StaleFlows::common_filter(&[&another, &one]), Some(common(&[53, 54], None, None)));
}
