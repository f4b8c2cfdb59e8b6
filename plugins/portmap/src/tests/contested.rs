//! Two containers with one host port: the oldest that lives comes first, and without a conflict nothing changes.

use super::*;
use cni_testkit::{FakeContainer, FakeIptables};

/// A machine on which some containers live, each in a namespace of its own.
fn inhabited(containers: &[&str]) -> FakeHost {
    let mut machine = routed();
    for container in containers {
        let identity = FakeContainer::Present(Some(format!("boot:{container}")));
        machine.set_container(&format!("/run/netns/{container}"), identity);
    }
    machine
}

/// A container whose addresses end in its first letter's place in the alphabet.
fn container(name: &str, keys: &str, mappings: &str) -> Caller {
    let last = name.bytes().next().map_or(0, |letter| letter - b'a' + 5);
    let ips = [format!("10.88.0.{last}/24"), format!("fd00:88::{last}/64")];
    Caller::new(name, keys, mappings, &ips.each_ref().map(String::as_str))
}

fn mapping(proto: &str, port: u16, host_ip: &str) -> String {
    format!(r#"{{"hostPort":{port},"containerPort":80,"protocol":"{proto}","hostIP":"{host_ip}"}}"#)
}

/// The containers in the order in which a packet meets their rules, in a family.
fn order(machine: &FakeHost, family: Family) -> Vec<String> {
    let rules = dump(machine, family);
    let entries = rules.lines().filter(|line| line.starts_with("-A CNI-HOSTPORT-DNAT "));
    let mut found: Vec<String> = entries.filter_map(|line| quoted_after(line, r#"id: \""#)).collect();
    let nft = machine.netfilter.nftables.dump();
    let table = nft.split("table ").find(|table| table.starts_with(&format!("{} cni_hostport", nft_word(family))));
    let jumps = table.into_iter().flat_map(str::lines).filter(|line| line.contains(" jump dnat-"));
    found.extend(jumps.filter_map(|line| quoted_after(line, "comment \"")));
    found
}

fn nft_word(family: Family) -> &'static str {
    if family == Family::V4 { "ip" } else { "ip6" }
}

fn quoted_after(line: &str, start: &str) -> Option<String> {
    Some(line.split(start).nth(1)?.split(['\\', '"']).next()?.to_owned())
}

#[test]
fn a_container_that_lives_keeps_its_port_until_its_del() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b", "c"]);
        let [a, b, c] = ["a", "b", "c"].map(|name| container(name, keys, TCP_8080));
        [&a, &b, &c].iter().for_each(|one| drop(one.add(machine).expect("added")));
        assert_eq!(Family::ALL.map(|family| order(machine, family)), [["a", "b", "c"], ["a", "b", "c"]], "{keys}");
        let before = rules(machine);
        b.add(machine).expect("added again");
        assert_eq!(rules(machine), before, "{keys}: in its place");
        a.del(machine).expect("removed");
        assert_eq!(order(machine, Family::V4), ["b", "c"]);
        b.del(machine).expect("removed");
        assert_eq!(order(machine, Family::V4), ["c"]);
        c.del(machine).expect("removed");
        assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
    }
}

/// With other ports than before, it still comes before those that came after it.
#[test]
fn a_container_that_is_added_again_with_other_ports_keeps_its_place() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b", "c"]);
        let two = format!("{},{}", mapping("tcp", 8080, ""), mapping("tcp", 81, ""));
        for (name, mappings) in [("a", TCP_8080), ("b", TCP_8080), ("c", TCP_8080), ("b", &two)] {
            container(name, keys, mappings).add(machine).expect("added");
        }
        let mut found = order(machine, Family::V4);
        found.dedup();
        assert_eq!(found, ["a", "b", "c"], "{keys}");
    }
}

/// A packet of an established UDP connection keeps going to the older container, and not after its DEL.
#[test]
fn the_connections_of_the_older_container_are_forgotten_at_its_del_only() {
    let udp = |ip| mapping("udp", 53, ip);
    for keys in BACKENDS {
        for (old, new, forgotten) in [
            ("", "", None),
            ("", "192.0.2.1", None),
            ("192.0.2.1", "", Some("forget UDP flows to *:53 not answered by 10.88.0.6 except to 192.0.2.1:53")),
            ("192.0.2.1", "192.0.2.2", Some("forget UDP flows to 192.0.2.2:53 not answered by 10.88.0.6")),
        ] {
            let machine = &mut inhabited(&["a", "b"]);
            container("a", keys, &udp(old)).add(machine).expect("added");
            let before = machine.applied().len();
            let b = container("b", keys, &udp(new));
            b.add(machine).expect("added");
            let flows = |from: usize, machine: &FakeHost| -> Vec<String> {
                let steps = machine.applied()[from..].iter().filter(|step| step.contains("10.88.0."));
                steps.filter_map(|step| Some(step[step.find("forget UDP")?..].to_owned())).collect()
            };
            let want: Vec<String> = forgotten.into_iter().map(str::to_owned).collect();
            assert_eq!(flows(before, machine), want, "{keys}: {old:?} {new:?}");
            let before = machine.applied().len();
            container("a", keys, &udp(old)).del(machine).expect("removed");
            let host = if old.is_empty() { "*" } else { old };
            assert_eq!(flows(before, machine), [format!("forget UDP flows to {host}:53 answered by 10.88.0.5")]);
        }
    }
}

/// It is unknown whether the first two live: one namespace cannot be entered, and the kernel does not tell the other
/// from others. The path of the third, which lives, is not visible.
#[test]
fn a_container_that_may_live_keeps_its_rules() {
    for unknown in [FakeContainer::Closed, FakeContainer::Present(None), FakeContainer::Unnamed] {
        for keys in BACKENDS {
            let machine = &mut inhabited(&["a", "b"]);
            if unknown == FakeContainer::Present(None) {
                machine.set_container("/run/netns/a", unknown.clone());
            }
            container("a", keys, TCP_8080).add(machine).expect("added");
            machine.set_container("/run/netns/a", unknown.clone());
            container("b", keys, TCP_8080).add(machine).expect("added");
            assert_eq!(order(machine, Family::V4), ["a", "b"], "{unknown:?}");
        }
    }
}

#[test]
fn ports_that_do_not_overlap_are_no_conflict() {
    for keys in BACKENDS {
        for (one, other, want) in [
            (mapping("tcp", 80, ""), mapping("udp", 80, ""), [["a", "b"], ["a", "b"]]),
            (mapping("tcp", 80, ""), mapping("tcp", 81, ""), [["a", "b"], ["a", "b"]]),
            (mapping("tcp", 80, "192.0.2.1"), mapping("tcp", 80, "192.0.2.2"), [["a", "b"], ["", ""]]),
            (mapping("tcp", 80, "192.0.2.1"), mapping("tcp", 80, "192.0.2.1"), [["a", "b"], ["", ""]]),
            (mapping("tcp", 80, ""), mapping("tcp", 80, "192.0.2.1"), [["a", "b"], ["a", ""]]),
            (mapping("tcp", 80, "192.0.2.1"), mapping("tcp", 80, ""), [["a", "b"], ["b", ""]]),
            (mapping("tcp", 80, "0.0.0.0"), mapping("tcp", 80, ""), [["a", "b"], ["b", ""]]),
        ] {
            let machine = &mut inhabited(&["a", "b"]);
            container("a", keys, &one).add(machine).expect("added");
            container("b", keys, &other).add(machine).expect("added");
            for (family, want) in Family::ALL.into_iter().zip(want) {
                let want: Vec<&str> = want.into_iter().filter(|name| !name.is_empty()).collect();
                assert_eq!(order(machine, family), want, "{keys} {one} {other}");
            }
        }
    }
}

#[test]
fn a_container_is_no_rival_of_itself() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b"]);
        let a = container("a", keys, TCP_8080);
        let mut elsewhere = a.0.clone();
        elsewhere.config = elsewhere.config.replace(r#""name":"n1""#, r#""name":"n2""#);
        let elsewhere = Caller(elsewhere);
        a.add(machine).expect("added");
        let before = rules(machine);
        a.add(machine).expect("added again");
        assert_eq!(rules(machine), before);
        elsewhere.add(machine).expect("added");
        let chains: Vec<String> = dump(machine, Family::V4)
            .lines()
            .filter(|line| line.starts_with("-A CNI-HOSTPORT-DNAT "))
            .filter_map(|line| quoted_after(line, r#"name: \""#))
            .collect();
        assert!(chains.is_empty() || chains == ["n1", "n2"], "in the reference's order: {chains:?}");
        machine.set_container("/run/netns/a", FakeContainer::Present(Some("boot:new".to_owned())));
        a.add(machine).expect("in a new namespace");
        elsewhere.del(machine).expect("removed");
        a.del(machine).expect("removed");
        assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
    }
}

/// Both packet filters.
fn rules(machine: &FakeHost) -> [String; 3] {
    [dump(machine, Family::V4), dump(machine, Family::V6), machine.netfilter.nftables.dump()]
}

#[test]
fn without_a_conflict_nothing_is_read_of_the_rules() {
    let machine = &mut inhabited(&["a", "b"]);
    container("a", "", TCP_8080).add(machine).expect("added");
    let b = container("b", "", &mapping("tcp", 81, ""));
    assert_eq!(
        machine.iptables_cost(|machine| drop(b.add(machine).expect("added"))),
        (2, 0),
        "one batch for each family"
    );
    let c = container("c", "", TCP_8080);
    assert_eq!(
        machine.iptables_cost(|machine| drop(c.add(machine).expect("added"))),
        (2, 0),
        "nor with one that lives"
    );
}

#[test]
fn without_locks_and_where_nothing_can_be_recorded_there_are_mappings_all_the_same() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a"]);
        machine.hold_locks();
        let a = container("a", keys, TCP_8080);
        let write = {
            let mut machine = inhabited(&["a"]);
            a.add(&mut machine).expect("added");
            machine.applied().iter().position(|step| step.contains("write record ports/")).expect("a record")
        };
        machine.fail_at(write + 1);
        a.add(machine).expect("added");
        a.check(machine).expect("there");
        a.del(machine).expect("removed");
        assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
    }
}

/// What a dead container has left is not put back; the records are as before but for that.
#[test]
fn a_failed_add_leaves_the_living_as_they_were() {
    for keys in BACKENDS {
        for lives in [true, false] {
            let made = |machine: &mut FakeHost| {
                container("a", keys, TCP_8080).add(machine).expect("added");
                if !lives {
                    machine.set_container("/run/netns/a", FakeContainer::Gone);
                }
            };
            let b = container("b", keys, TCP_8080);
            for step in 1.. {
                let machine = &mut inhabited(&["a", "b"]);
                made(machine);
                let before = (rules(machine), machine.records.lines());
                machine.fail_at(machine.applied().len() + step);
                let added = b.add(machine);
                if machine.is_to_fail() {
                    break;
                }
                if added.is_err() {
                    let left = order(machine, Family::V4);
                    assert_eq!(machine.records.lines(), before.1, "{keys}: step {step}");
                    assert!(left == ["a"] || !lives && left.is_empty(), "{keys}: step {step}: {left:?}");
                    if lives {
                        assert_eq!(rules(machine), before.0, "{keys}: step {step}");
                    }
                }
                b.add(machine).expect("the second try");
                assert_eq!(order(machine, Family::V4)[0], if lives { "a" } else { "b" }, "{keys}: step {step}");
                assert!(lives || order(machine, Family::V4).len() == 1, "{keys}: step {step}");
            }
        }
    }
}

#[test]
fn gc_removes_the_record_of_the_ports() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b"]);
        let [a, b] = ["a", "b"].map(|name| container(name, keys, TCP_8080));
        [&a, &b].iter().for_each(|one| drop(one.add(machine).expect("added")));
        gc(machine, "n2", &[]).expect("nothing to do");
        assert_eq!(order(machine, Family::V4), ["a", "b"]);
        gc(machine, "n1", &["b"]).expect("removed");
        assert_eq!(order(machine, Family::V4), ["b"]);
        assert!(!machine.records.lines().iter().any(|line| line.contains("n1 a ")), "{:?}", machine.records.lines());
        gc(machine, "n1", &[]).expect("removed");
        assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
    }
}

#[test]
fn a_del_that_fails_leaves_what_it_needs_to_be_noticed() {
    let machine = &mut inhabited(&["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| container(name, "", TCP_8080));
    a.add(machine).expect("added");
    machine.fail_at(machine.applied().len() + 1);
    a.del(machine).expect_err("the first step fails");
    machine.set_container("/run/netns/a", FakeContainer::Gone);
    b.add(machine).expect("added");
    assert_eq!(order(machine, Family::V4), ["b"], "{:?}", machine.records.lines());
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn a_repair_puts_the_rules_back_in_their_order() {
    for keys in BACKENDS {
        for (lost, repaired) in [false, true].into_iter().flat_map(|lost| ORDERS.map(|order| (lost, order))) {
            let machine = &mut inhabited(&["a", "b", "c"]);
            let callers = ["a", "b", "c"].map(|name| container(name, keys, TCP_8080));
            callers.iter().for_each(|one| drop(one.add(machine).expect("added")));
            machine.netfilter.iptables = FakeIptables::new();
            machine.netfilter.nftables = FakeNftables::new();
            if lost {
                machine.records.clear();
            }
            for at in repaired {
                assert!(lifecycle::repair(&Portmap, machine, &callers[at].0) > 0);
            }
            // Without records, they are in the order in which they are repaired.
            let want = if lost { repaired } else { [0, 1, 2] }.map(|at| ["a", "b", "c"][at]);
            assert_eq!(Family::ALL.map(|family| order(machine, family)), [want; 2], "{keys}: {repaired:?}");
            callers.iter().for_each(|one| one.del(machine).expect("removed"));
            assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
        }
    }
}

/// `a` is the reference's, so nothing is recorded of it, and `b` is newer.
#[test]
fn a_repair_records_a_container_of_the_reference_by_its_rules_or_by_those_that_are_next() {
    for keys in BACKENDS {
        for (is_there, is_next, want) in
            [(true, false, ["a", "b"]), (false, true, ["a", "b"]), (false, false, ["b", "a"])]
        {
            let machine = &mut inhabited(&["a", "b"]);
            let [a, b] = ["a", "b"].map(|name| container(name, keys, TCP_8080));
            a.add(machine).expect("added");
            machine.records.clear();
            b.add(machine).expect("added");
            if !is_there {
                flush(machine);
            }
            let next = |at: &Attachment| is_next && at.container.as_str() == "b";
            lifecycle::repair_before(&Portmap, machine, &a.0, &next);
            assert!(
                machine.records.lines().iter().any(|line| line.contains(" a eth0")),
                "{:?}",
                machine.records.lines()
            );
            for again in [&b, &a, &b] {
                flush(machine);
                for one in [again, &a, &b] {
                    lifecycle::repair(&Portmap, machine, &one.0);
                }
                let found = Family::ALL.map(|family| order(machine, family));
                assert_eq!(found, [want; 2], "{keys}: {is_there} {is_next}");
            }
            [a, b].iter().for_each(|one| one.del(machine).expect("removed"));
            assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
        }
    }
}

/// Only a family that both publish shows which of them has a port.
#[test]
fn a_container_of_one_family_is_recorded_by_the_rules_of_that() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b"]);
        let a = Caller::new("a", keys, TCP_8080, &["10.88.0.5/24"]);
        let b = container("b", keys, TCP_8080);
        a.add(machine).expect("added");
        machine.records.clear();
        b.add(machine).expect("added");
        lifecycle::repair(&Portmap, machine, &a.0);
        flush(machine);
        for one in [&b, &a] {
            lifecycle::repair(&Portmap, machine, &one.0);
        }
        assert_eq!(
            (order(machine, Family::V4), order(machine, Family::V6)),
            (vec!["a".into(), "b".into()], vec!["b".into()])
        );
    }
}

fn flush(machine: &mut FakeHost) {
    machine.netfilter.iptables = FakeIptables::new();
    machine.netfilter.nftables = FakeNftables::new();
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Add(usize),
    Del(usize),
    Die(usize),
}

fn event() -> impl Strategy<Value = Event> {
    (0..3_usize, 0..3).prop_map(|(at, kind)| match kind {
        0 => Event::Add(at),
        1 => Event::Del(at),
        _ => Event::Die(at),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After each ADD the port leads to the oldest of those that live.
    #[test]
    fn a_dead_container_never_wins(events in prop::collection::vec(event(), 0..25), nft in any::<bool>()) {
        let names = ["a", "b", "c"];
        let keys = BACKENDS[usize::from(nft)];
        let machine = &mut inhabited(&names);
        let callers = names.map(|name| container(name, keys, TCP_8080));
        let (mut queue, mut dead): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for (number, event) in events.into_iter().enumerate() {
            let path = |at: usize| format!("/run/netns/{}", names[at]);
            match event {
                Event::Add(at) => {
                    machine.set_container(&path(at), FakeContainer::Present(Some(format!("boot:{number}"))));
                    callers[at].add(machine).expect("added");
                    dead.retain(|name| *name != names[at]);
                    queue.retain(|name| !dead.contains(name));
                    if !queue.contains(&names[at]) {
                        queue.push(names[at]);
                    }
                }
                Event::Del(at) => {
                    callers[at].del(machine).expect("removed");
                    let met = queue.contains(&names[at]);
                    queue.retain(|name| *name != names[at] && !(met && dead.contains(name)));
                }
                Event::Die(at) => {
                    machine.set_container(&path(at), FakeContainer::Gone);
                    dead.push(names[at]);
                }
            }
            prop_assert_eq!(&order(machine, Family::V4), &queue);
        }
        callers.iter().for_each(|one| one.del(machine).expect("removed"));
        prop_assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
        prop_assert!(!dump(machine, Family::V4).contains("CNI-DN-"));
    }
}

/// Another plugin's DEL has left the records, or DEL was not called: a plugin that finds a dead container removes everything of it.
#[test]
fn nothing_is_left_of_a_dead_container_whose_port_an_add_or_a_del_has() {
    for keys in BACKENDS {
        for by_add in [true, false] {
            let machine = &mut inhabited(&["a", "b"]);
            let two = format!("{},{}", mapping("tcp", 8080, ""), mapping("tcp", 81, ""));
            container("a", keys, &two).add(machine).expect("added");
            let b = container("b", keys, TCP_8080);
            if by_add {
                machine.set_container("/run/netns/a", FakeContainer::Gone);
                machine.netfilter.iptables = FakeIptables::new();
                machine.netfilter.nftables = FakeNftables::new();
                b.add(machine).expect("added");
                let of_a = machine.records.lines().into_iter().filter(|line| line.contains("n1 a ")).count();
                assert_eq!(of_a, 0, "{keys}: {:?}", machine.records.lines());
            } else {
                b.add(machine).expect("added");
                machine.set_container("/run/netns/a", FakeContainer::Gone);
            }
            b.del(machine).expect("removed");
            assert!(machine.records.is_empty(), "{keys}: {:?}", machine.records.lines());
            assert_eq!(order(machine, Family::V4), [""; 0], "{keys}");
        }
    }
}
