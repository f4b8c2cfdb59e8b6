use super::*;
use crate::fixtures::at;

/// The lines of a record, as another plugin finds them.
fn found(text: &str) -> Vec<PortLine> {
    whole_lines(text).filter_map(|line| PortLine::parse(80, line)).collect()
}

/// Earlier releases wrote the same.
#[test]
fn a_record_is_read_as_it_is_written() {
    let home = RecordedNamespace { identity: "boot:a".to_owned(), number: None, path: "/run/netns/a".to_owned() };
    for (home, text) in
        [(Some(home), "udp 192.0.2.1 n1 ctr1 eth0 boot:a /run/netns/a\n"), (None, "udp 192.0.2.1 n1 ctr1 eth0\n")]
    {
        let published = PublishedPort { port: 80, proto: Proto::Udp, address: [192, 0, 2, 1].into() };
        let line = PortLine { published, owner: at(), home };
        assert_eq!((line.to_string().as_str(), found(text)), (text, vec![line]));
    }
}

#[test]
fn of_a_torn_record_only_whole_lines_count() {
    let whole = "tcp 0.0.0.0 n1 a eth0 boot:a /run/netns/a\ntcp 0.0.0.0 n1 b eth0 boot:b /run/netns/b\n";
    for end in 0..whole.len() {
        assert_eq!(found(&whole[..end]).len(), usize::from(end > whole.len() / 2 - 1), "{:?}", &whole[..end]);
    }
    assert_eq!(found("nonsense\ntcp\ntcp x n1 a eth0\nicmp 0.0.0.0 n1 a eth0\ntcp 0.0.0.0 n1 a\n"), []);
}

fn published(port: u16, proto: Proto, address: &str) -> PublishedPort {
    PublishedPort { port, proto, address: address.parse().expect("an address") }
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
