use cni_netfilter::Proto;
use cni_testkit::{FakeRecords, attachment};

use super::*;

fn published(proto: Proto, address: &str, port: u16) -> PublishedPort {
    PublishedPort { port, proto, address: address.parse().expect("an address") }
}

fn web() -> Vec<PublishedPort> {
    vec![published(Proto::Tcp, "0.0.0.0", 80), published(Proto::Tcp, "::", 80), published(Proto::Udp, "192.0.2.1", 53)]
}

fn home(name: &str) -> RecordedNamespace {
    RecordedNamespace { identity: format!("boot:{name}"), number: None, path: format!("/run/netns/{name}") }
}

fn owner(container: &str) -> Attachment {
    attachment("n1", container, "eth0")
}

fn carry_out(records: &mut FakeRecords, plan: &Plan) {
    for (_, step) in plan.steps() {
        if let Step::WriteRecord { key, text } = step {
            records.write(key, text);
        } else if let Step::RemoveRecord { key } = step {
            records.remove(key);
        } else {
            panic!("no step for a record: {step}");
        }
    }
}

fn register(records: &mut FakeRecords, container: &str, ports: &[u16]) -> PortRegister {
    let ports = OwnPorts::observe(&owner(container), ports.iter().copied(), records);
    PortRegister::observe(ports, records)
}

fn claim(records: &mut FakeRecords, container: &str, published: &[PublishedPort], gone: &[Attachment]) {
    let ports: Vec<u16> = published.iter().map(|own| own.port).collect();
    let plan = register(records, container, &ports).claim(Some(&home(container)), published, gone);
    carry_out(records, &plan);
}

fn release(records: &mut FakeRecords, container: &str) {
    let plan = register(records, container, &[]).release(&[]);
    carry_out(records, &plan);
}

fn rivals(records: &mut FakeRecords, container: &str, published: &[PublishedPort]) -> Vec<String> {
    let ports: Vec<u16> = published.iter().map(|own| own.port).collect();
    let register = register(records, container, &ports);
    register.rivals(published).iter().map(|line| format!("{} {}", line.owner.container, line.published)).collect()
}

#[test]
fn the_records_are_those_of_earlier_releases() {
    let records = &mut FakeRecords::default();
    claim(records, "a", &web(), &[]);
    let want = [
        r#"ports/53: "udp 192.0.2.1 n1 a eth0 boot:a /run/netns/a\n""#,
        r#"ports/80: "tcp 0.0.0.0 n1 a eth0 boot:a /run/netns/a\ntcp :: n1 a eth0 boot:a /run/netns/a\n""#,
    ];
    let lines = records.lines();
    assert_eq!(lines[..2], want);
    assert!(lines[2].starts_with("ports/owner-") && lines[2].ends_with(r#": "n1 a eth0\n53\n80\n""#), "{}", lines[2]);
    release(records, "a");
    assert!(records.is_empty(), "{:?}", records.lines());
}

#[test]
fn an_attachment_keeps_its_place_and_its_own_lines_are_no_rivals() {
    let records = &mut FakeRecords::default();
    for container in ["a", "b", "c", "a"] {
        claim(records, container, &web()[..1], &[]);
    }
    assert_eq!(rivals(records, "a", &web()), ["b tcp 0.0.0.0:80", "c tcp 0.0.0.0:80"]);
    assert_eq!(rivals(records, "b", &web()[..1]), ["a tcp 0.0.0.0:80", "c tcp 0.0.0.0:80"]);
    assert_eq!(rivals(records, "b", &web()[1..]), [""; 0], "another family, another port");
    for (container, want) in [("b", [false, true]), ("c", [false, false]), ("d", [false, false])] {
        let register = register(records, container, &[80]);
        let later: Vec<bool> = register.rivals(&web()).into_iter().map(|line| register.is_later(line)).collect();
        assert_eq!(later[..2], want, "{container}");
    }
}

#[test]
fn what_is_gone_is_forgotten_by_the_next() {
    let records = &mut FakeRecords::default();
    claim(records, "a", &web(), &[]);
    claim(records, "b", &web(), &[owner("a")]);
    assert_eq!(rivals(records, "c", &web()), ["b udp 192.0.2.1:53", "b tcp 0.0.0.0:80", "b tcp [::]:80"]);
}

#[test]
fn ports_that_a_container_no_longer_maps_are_forgotten() {
    let records = &mut FakeRecords::default();
    claim(records, "a", &web(), &[]);
    claim(records, "a", &[published(Proto::Tcp, "0.0.0.0", 81)], &[]);
    assert_eq!(rivals(records, "b", &web()), [""; 0]);
    release(records, "a");
    assert!(records.is_empty(), "{:?}", records.lines());
}

#[test]
fn the_first_to_go_leaves_the_others_lines() {
    let records = &mut FakeRecords::default();
    for container in ["a", "b"] {
        claim(records, container, &web(), &[]);
    }
    release(records, "a");
    assert_eq!(rivals(records, "c", &web()[..1]), ["b tcp 0.0.0.0:80"]);
    release(records, "b");
    assert!(records.is_empty(), "{:?}", records.lines());
}

#[test]
fn what_is_restored_is_the_latest_and_what_is_there_stays() {
    let records = &mut FakeRecords::default();
    claim(records, "b", &web(), &[]);
    for _ in 0..2 {
        let plan = register(records, "a", &[80]).restore(Some(&home("a")), &web()[..1], &[]);
        carry_out(records, &plan);
        assert_eq!(rivals(records, "c", &web()[..1]), ["b tcp 0.0.0.0:80", "a tcp 0.0.0.0:80"]);
    }
    assert_eq!(register(records, "b", &[80]).restore(Some(&home("b")), &web(), &[]), Plan::default());
}

#[test]
fn what_is_restored_comes_before_those_whose_rules_come_later() {
    let records = &mut FakeRecords::default();
    ["b", "c", "d"].iter().for_each(|container| claim(records, container, &web()[..1], &[]));
    for later in [["c", "d"], ["d", "b"]] {
        let later = later.map(owner);
        let plan = register(records, "a", &[80]).restore(Some(&home("a")), &web()[..1], &later);
        carry_out(records, &plan);
        let found = rivals(records, "z", &web()[..1]);
        let places: Vec<&str> = found.iter().map(|rival| &rival[..1]).collect();
        assert_eq!(places, ["b", "a", "c", "d"], "it keeps its place");
    }
    assert!(register(records, "a", &[80]).has_all(&web()[..1]) && !register(records, "a", &[80]).has_all(&web()));
}

#[test]
fn of_a_torn_record_only_whole_lines_count() {
    let whole = "tcp 0.0.0.0 n1 a eth0 boot:a /run/netns/a\ntcp 0.0.0.0 n1 b eth0 boot:b /run/netns/b\n";
    let records = &mut FakeRecords::default();
    for end in 0..whole.len() {
        records.write(&of_port(80), &whole[..end]);
        let want = usize::from(end > whole.len() / 2 - 1);
        assert_eq!(rivals(records, "c", &web()[..1]).len(), want, "{:?}", &whole[..end]);
    }
    records.write(&of_port(80), "nonsense\ntcp\ntcp x n1 a eth0\nicmp 0.0.0.0 n1 a eth0\ntcp 0.0.0.0 n1 a\n");
    assert_eq!(rivals(records, "c", &web()), [""; 0]);
}

#[test]
fn a_container_without_a_home_is_recorded_all_the_same() {
    let line = PortLine { published: web()[0], owner: owner("a"), home: None };
    let text = line.to_string();
    assert_eq!((text.as_str(), PortLine::parse(80, text.trim_end())), ("tcp 0.0.0.0 n1 a eth0\n", Some(line)));
}

#[test]
fn the_owners_of_ports_are_found_with_their_namespaces() {
    let records = &mut FakeRecords::default();
    for container in ["a", "b", "c"] {
        claim(records, container, &web(), &[]);
    }
    let mut found = owners_but(&[&owner("b")], records).expect("listed");
    found.sort_by_key(|one| one.at.container.to_string());
    let want = ["a", "c"].map(|container| RecordedOwner {
        at: owner(container),
        home: Some(home(container)),
        addresses: Vec::new(),
    });
    assert_eq!(found, want);
}
