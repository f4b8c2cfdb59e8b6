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

/// Ports of the host, each `address:port>target`, where `*` is any address.
fn stale(change: PortChange, ports: &str) -> StaleFlows {
    let port = |text: &str| {
        let (from, target) = text.split_once('>').expect("two ends");
        let (host_ip, port) = from.rsplit_once(':').expect("an address and a port");
        let host_ip = Some(host_ip).filter(|text| *text != "*").map(ip);
        UdpPort { host_ip, port: port.parse().expect("a port"), target: socket(target) }
    };
    let ports: Vec<UdpPort> = ports.split(' ').map(port).collect();
    StaleFlows::new(change, ports[0].target.ip(), ports).expect("there are ports")
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
fn the_connections_of_the_page_are_stale_or_not() {
    for block in include_str!("flows.txt").split("\n\n").skip(1) {
        let mut lines = block.lines().filter(|line| !line.starts_with('#'));
        let (change, ports) = lines.next().and_then(|line| line.split_once(' ')).expect(block);
        let change = match change {
            "mapped" => PortChange::Mapped,
            "unmapped" => PortChange::Unmapped,
            _ => PortChange::Restored,
        };
        let (is_stale, flows): (Vec<bool>, Vec<&str>) =
            lines.filter_map(|line| line.split_once(' ')).map(|(word, flow)| (word == "stale", flow)).unzip();
        let taken = taken(&stale(change, ports), &flows);
        assert_eq!(flows.iter().map(|flow| taken.contains(flow)).collect::<Vec<_>>(), is_stale, "{block}");
    }
}

#[test]
fn the_owner_of_an_address_is_asked_only_when_it_decides() {
    let asked = |_| Err("asked");
    let flow = Flow { to: socket("192.0.2.1:8080"), answered_by: socket("10.88.0.5:80") };
    let mapped = stale(PortChange::Mapped, "*:8080>10.88.0.5:80");
    assert_eq!(mapped.contain(&flow, asked), Ok(false));
    let unmapped = stale(PortChange::Unmapped, "*:8080>10.88.0.5:80");
    assert_eq!(unmapped.contain(&flow, asked), Err("asked"));
    let fixed = stale(PortChange::Unmapped, "192.0.2.1:8080>10.88.0.5:80");
    assert_eq!(fixed.contain(&flow, asked), Ok(true));
}

#[test]
fn what_all_have_in_common_is_reported() {
    let filter = |to: Option<&str>, ports: &[u16], led_to: Option<&str>| FlowFilter {
        family: Family::V4,
        to: to.map(ip),
        ports: ports.to_vec(),
        led_to: led_to.map(ip),
    };
    let (one, other, elsewhere) = ("*:53>10.88.0.5:53", "192.0.2.1:54>10.88.0.5:54", "192.0.2.200:53>10.88.0.5:53");
    let mapped = stale(PortChange::Mapped, "*:53>10.88.0.5:53 192.0.2.1:53>10.88.0.5:53");
    assert_eq!(mapped.filter(), filter(None, &[53], None));
    let unmapped = stale(PortChange::Unmapped, &format!("{other} {one}"));
    assert_eq!(unmapped.filter(), filter(None, &[53, 54], Some("10.88.0.5")));
    assert_eq!(unmapped.to_string(), "forget UDP flows to *:53 192.0.2.1:54 answered by 10.88.0.5");
    for (ports, want) in
        [([other, other], Some("192.0.2.1")), ([other, elsewhere], None), ([one, other], None), ([other, one], None)]
    {
        assert_eq!(stale(PortChange::Mapped, &ports.join(" ")).filter().to, want.map(ip), "{ports:?}");
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

/// The kernel cannot compare IPv6 addresses.
#[test]
fn a_change_is_filters_of_the_kernel_unless_they_are_too_many_or_none_says_it() {
    use PortChange::{Mapped, Restored, Unmapped};
    let ports = "*:53>10.88.0.5:53 192.0.2.200:54>10.88.0.5:54";
    let networks = &["127.0.0.0/8", "127.0.0.1/32", "192.0.2.1/32"][..];
    for (change, ports, networks, want) in [
        (Mapped, ports, networks, Some(&["127.0.0.1:[53] *", "192.0.2.1:[53] *", "192.0.2.200:[54] *"][..])),
        (Mapped, ports, &["127.0.0.1/32", "198.51.100.0/24"], None),
        (Mapped, ports, &[], Some(&["192.0.2.200:[54] *"])),
        (Unmapped, ports, &[], Some(&["*:[53] 10.88.0.5", "192.0.2.200:[54] 10.88.0.5"])),
        (Restored, "192.0.2.1:53>10.88.0.5:53", &[], None),
        (Unmapped, "2001:db8::1:53>[fd00:88::5]:53", &[], None),
    ] {
        let want = want.map(|want| want.iter().map(ToString::to_string).collect());
        assert_eq!(filters(&stale(change, ports), networks), want, "{change:?} {ports}");
    }
    for change in [Mapped, Unmapped] {
        let filters = stale(change, "192.0.2.1:53>10.88.0.5:53").filters(|| Err("asked"));
        assert_eq!(filters.map(|filters| filters.map(|filters| filters.len())), Ok(Some(1)), "no need to ask");
    }
    assert_eq!(stale(Mapped, "*:53>10.88.0.5:53").filters(|| Err("asked")), Err("asked"));
}

#[test]
fn every_one_of_many_ports_is_found_and_none_between_them() {
    let ports: Vec<String> = (0..1000).rev().map(|n| format!("*:{}>10.88.0.5:53", 20_000 + 2 * n)).collect();
    let mapped = stale(PortChange::Mapped, &ports.join(" "));
    for number in 19_990..22_010 {
        let to = SocketAddr::new(ip("192.0.2.1"), number);
        let wanted = (20_000..22_000).contains(&number) && number % 2 == 0;
        assert_eq!(mapped.contain(&Flow { to, answered_by: to }, is_local), Ok(wanted), "{number}");
    }
}

#[test]
fn connections_that_others_keep_are_not_stale() {
    let flows = ["192.0.2.1:8080 10.88.0.4:80", "127.0.0.1:8080 10.88.0.3:80", "192.0.2.1:8081 10.88.0.4:81"];
    let ports = "*:8080>10.88.0.5:80 *:8081>10.88.0.5:81";
    let kept = |kept: &[&str]| {
        let kept: Vec<SocketAddr> = kept.iter().map(|text| socket(text)).collect();
        stale(PortChange::Mapped, ports).without(&kept)
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
    let one = stale(PortChange::Mapped, "192.0.2.1:8080>10.88.0.5:80");
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
    let one = stale(PortChange::Unmapped, "192.0.2.1:53>10.88.0.5:53");
    let same_address = stale(PortChange::Unmapped, "192.0.2.1:52>10.88.0.5:53");
    let another = stale(PortChange::Restored, "*:54>10.88.0.6:53 *:53>10.88.0.6:54");
    assert_eq!(StaleFlows::common_filter(&[&one]), Some(one.filter()));
    let common = |ports: &[u16], to, led_to| FlowFilter { family: Family::V4, to, ports: ports.to_vec(), led_to };
    let (host, container) = (Some(ip("192.0.2.1")), Some(ip("10.88.0.5")));
    assert_eq!(StaleFlows::common_filter(&[&one, &same_address]), Some(common(&[52, 53], host, container)));
    assert_eq!(StaleFlows::common_filter(&[&another, &one]), Some(common(&[53, 54], None, None)));
}
