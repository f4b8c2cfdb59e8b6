use super::*;
use crate::fixtures::{at, entry};

/// A register of `ctr1` at port 80, where `before` and `behind` have got it at 10 and at 20 nanoseconds.
fn register(own: Option<&str>) -> PortRegister {
    let others = [("before", "port-80 10 tcp 0.0.0.0\n"), ("behind", "port-80 20 tcp 0.0.0.0 udp ::\n")];
    PortRegister {
        owner: at(),
        ports: [80].into_iter().chain(own.map(|_| 81)).collect(),
        own: own.map(|parts| entry("ctr1", parts)),
        others: others.map(|(name, parts)| entry(name, parts)).into(),
    }
}

fn published(port: u16, proto: Proto, address: &str) -> PublishedPort {
    PublishedPort { port, proto, address: address.parse().expect("an address") }
}

fn changes(step: Option<Step>) -> Vec<(String, Option<String>)> {
    let Some(step) = step else { return Vec::new() };
    let Step::Record { parts, .. } = step else { panic!("{step}") };
    parts.into_iter().map(|(part, text)| (part.to_string(), text)).collect()
}

#[test]
fn a_part_is_read_as_it_is_written_or_counts_as_missing() {
    let text = "7 tcp 0.0.0.0 udp fd00::1 in boot:1 /run/a b";
    let ports = vec![published(80, Proto::Tcp, "0.0.0.0"), published(80, Proto::Udp, "fd00::1")];
    let recorded = RecordedPort {
        since: Duration::from_nanos(7),
        published: ports,
        home: RecordedNamespace::parse("boot:1 /run/a b"),
    };
    assert_eq!((recorded.to_string().as_str(), RecordedPort::parse(80, text)), (text, Some(recorded)));
    for text in ["", "x tcp 0.0.0.0", "7 tcp", "7 tcp x", "7 icmp 0.0.0.0", "7 tcp 0.0.0.0 udp"] {
        assert_eq!(RecordedPort::parse(80, text), None, "{text:?}");
    }
}

#[test]
fn an_add_keeps_its_place_and_gives_up_ports_that_it_maps_no_more() {
    let (tcp, now) = ([published(80, Proto::Tcp, "192.0.2.1")], Duration::from_nanos(30));
    let want = |since: u64| Some(format!("{since} tcp 192.0.2.1"));
    assert_eq!(changes(Some(register(None).claim(&tcp, None, now))), [("port-80".to_owned(), want(30))]);
    let earlier = register(Some("port-80 15 udp ::\nport-81 16 tcp ::\n"));
    let changed = changes(Some(earlier.claim(&tcp, None, now)));
    assert_eq!(changed, [("port-80".to_owned(), want(15)), ("port-81".to_owned(), None)]);
}

#[test]
fn a_repair_adds_mappings_at_the_own_place_or_before_later_ones_or_behind_all() {
    let both = [published(80, Proto::Tcp, "0.0.0.0"), published(80, Proto::Udp, "0.0.0.0")];
    let (behind, now) = (entry("behind", "").at, Duration::from_nanos(30));
    let home = RecordedNamespace::parse("boot:1 /run/a");
    for (own, later, home, want) in [
        (None, vec![], None, Some("30 tcp 0.0.0.0 udp 0.0.0.0")),
        (None, vec![behind.clone()], None, Some("15 tcp 0.0.0.0 udp 0.0.0.0")),
        (Some("port-80 15 tcp ::\n"), vec![behind], None, Some("15 tcp :: tcp 0.0.0.0 udp 0.0.0.0")),
        (Some("port-80 15 tcp 0.0.0.0 udp 0.0.0.0\n"), vec![], None, None),
        (
            Some("port-80 15 tcp 0.0.0.0 udp 0.0.0.0\n"),
            vec![],
            home,
            Some("15 tcp 0.0.0.0 udp 0.0.0.0 in boot:1 /run/a"),
        ),
    ] {
        let found = changes(register(own).restore(home.as_ref(), &both, &later, now));
        let want: Vec<_> = want.map(|text| ("port-80".to_owned(), Some(text.to_owned()))).into_iter().collect();
        assert_eq!(found, want);
    }
}

#[test]
fn a_wildcard_overlaps_each_address_of_its_family() {
    for (one, other, want) in [
        ("0.0.0.0", "0.0.0.0", true),
        ("0.0.0.0", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("0.0.0.0", "::", false),
        ("0.0.0.0", "fd00::1", false),
        ("::", "fd00::1", true),
        ("::", "192.0.2.1", false),
    ] {
        let [one, other] = [one, other].map(|address| published(80, Proto::Tcp, address));
        assert_eq!((one.overlaps(&other), other.overlaps(&one)), (want, want), "{one} {other}");
    }
    let one = published(80, Proto::Tcp, "0.0.0.0");
    for other in [published(81, Proto::Tcp, "0.0.0.0"), published(80, Proto::Udp, "0.0.0.0")] {
        assert!(!one.overlaps(&other), "{other}");
    }
}
