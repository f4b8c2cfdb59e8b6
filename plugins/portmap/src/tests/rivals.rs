//! Two containers with one host port: the newest that lives comes first, and without a conflict nothing changes.

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
fn the_rules_of_a_dead_container_go_before_the_new_ones_come() {
    for keys in BACKENDS {
        for (proto, other) in [("tcp", "udp"), ("udp", "sctp"), ("sctp", "tcp")] {
            let machine = &mut inhabited(&["a", "b"]);
            let a = container("a", keys, &format!("{},{}", mapping(proto, 80, ""), mapping(other, 81, "")));
            a.add(machine).expect("added");
            machine.set_container("/run/netns/a", FakeContainer::Gone);
            let b = container("b", keys, &mapping(proto, 80, ""));
            b.add(machine).expect("added");
            assert_eq!(Family::ALL.map(|family| order(machine, family)), [["b"], ["b"]], "{keys}");
            a.del(machine).expect("a late DEL");
            assert_eq!(Family::ALL.map(|family| order(machine, family)), [["b"], ["b"]], "{keys}");
            b.check(machine).expect("there");
            b.del(machine).expect("removed");
            assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
        }
    }
}

/// A path may lead to another container's namespace.
#[test]
fn a_container_whose_namespace_is_another_one_by_now_is_dead() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b"]);
        container("a", keys, TCP_8080).add(machine).expect("added");
        machine.set_container("/run/netns/a", FakeContainer::Present(Some("boot:other".to_owned())));
        container("b", keys, TCP_8080).add(machine).expect("added");
        assert_eq!(order(machine, Family::V4), ["b"]);
    }
}

#[test]
fn the_newest_of_those_that_live_comes_first_until_it_goes() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b", "c"]);
        let [a, b, c] = ["a", "b", "c"].map(|name| container(name, keys, TCP_8080));
        [&a, &b, &c].iter().for_each(|one| drop(one.add(machine).expect("added")));
        assert_eq!(Family::ALL.map(|family| order(machine, family)), [["c", "b", "a"], ["c", "b", "a"]], "{keys}");
        b.add(machine).expect("added again, and so the newest");
        assert_eq!(order(machine, Family::V4), ["b", "c", "a"], "{keys}");
        a.del(machine).expect("removed");
        b.del(machine).expect("removed");
        assert_eq!(order(machine, Family::V4), ["c"]);
        c.del(machine).expect("removed");
        assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
    }
}

/// Nobody can tell whether these live: one namespace cannot be entered, the kernel does not tell the other from others.
#[test]
fn a_container_of_which_nothing_is_known_keeps_its_rules() {
    for unknown in [FakeContainer::Closed, FakeContainer::Present(None)] {
        for keys in BACKENDS {
            let machine = &mut inhabited(&["a", "b"]);
            if unknown != FakeContainer::Closed {
                machine.set_container("/run/netns/a", unknown.clone());
            }
            container("a", keys, TCP_8080).add(machine).expect("added");
            machine.set_container("/run/netns/a", unknown.clone());
            container("b", keys, TCP_8080).add(machine).expect("added");
            assert_eq!(order(machine, Family::V4), ["b", "a"], "{unknown:?}");
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
            (mapping("tcp", 80, "192.0.2.1"), mapping("tcp", 80, "192.0.2.1"), [["b", "a"], ["", ""]]),
            (mapping("tcp", 80, ""), mapping("tcp", 80, "192.0.2.1"), [["b", "a"], ["a", ""]]),
            (mapping("tcp", 80, "192.0.2.1"), mapping("tcp", 80, ""), [["b", "a"], ["b", ""]]),
            (mapping("tcp", 80, "0.0.0.0"), mapping("tcp", 80, ""), [["b", "a"], ["b", ""]]),
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

/// Whatever has become of the records, an ADD works.
#[test]
fn records_that_are_lost_or_torn_do_not_matter() {
    for keys in BACKENDS {
        for torn in [None, Some(""), Some("nonsense\n"), Some("tcp 0.0.0.0 n1 a eth0 boot:a /run/net")] {
            let machine = &mut inhabited(&["a", "b"]);
            let [a, b] = ["a", "b"].map(|name| container(name, keys, TCP_8080));
            a.add(machine).expect("added");
            let known = machine.records.clone();
            machine.records.clear();
            if let Some(text) = torn {
                for key in known.keys() {
                    machine.records.write(&key, text);
                }
            }
            b.add(machine).expect("added");
            assert_eq!(order(machine, Family::V4), ["a", "b"], "{torn:?}: as in the reference");
            b.check(machine).expect("there");
            b.del(machine).expect("removed");
            a.del(machine).expect("removed");
            assert_eq!(order(machine, Family::V4), [""; 0]);
        }
    }
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
                assert_eq!(order(machine, Family::V4)[0], "b", "{keys}: step {step}");
                assert!(lives || order(machine, Family::V4).len() == 1, "{keys}: step {step}");
            }
        }
    }
}

#[test]
fn gc_forgets_whose_the_ports_were() {
    for keys in BACKENDS {
        let machine = &mut inhabited(&["a", "b"]);
        let [a, b] = ["a", "b"].map(|name| container(name, keys, TCP_8080));
        [&a, &b].iter().for_each(|one| drop(one.add(machine).expect("added")));
        gc(machine, "n2", &[]).expect("nothing to do");
        assert_eq!(order(machine, Family::V4), ["b", "a"]);
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

#[test]
fn a_repair_puts_the_rules_back_in_their_order() {
    for keys in BACKENDS {
        for lost in [false, true] {
            let machine = &mut inhabited(&["a", "b", "c"]);
            let callers = ["a", "b", "c"].map(|name| container(name, keys, TCP_8080));
            callers.iter().for_each(|one| drop(one.add(machine).expect("added")));
            machine.netfilter.iptables = FakeIptables::new();
            machine.netfilter.nftables = FakeNftables::new();
            if lost {
                machine.records.clear();
            }
            for one in &callers {
                assert!(lifecycle::repair(&Portmap, machine, &one.0) > 0);
            }
            // Without records, they are in the order in which they are repaired.
            let first = if lost { "a" } else { "c" };
            assert_eq!(Family::ALL.map(|family| order(machine, family)[0].clone()), [first; 2], "{keys}");
            callers.iter().for_each(|one| one.del(machine).expect("removed"));
            assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
        }
    }
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

    /// After each ADD the port leads to its container, and to the newest as long as that is there.
    #[test]
    fn a_dead_container_never_wins(events in prop::collection::vec(event(), 0..25), nft in any::<bool>()) {
        let names = ["a", "b", "c"];
        let keys = BACKENDS[usize::from(nft)];
        let machine = &mut inhabited(&names);
        let callers = names.map(|name| container(name, keys, TCP_8080));
        let (mut stack, mut dead): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for (number, event) in events.into_iter().enumerate() {
            let path = |at: usize| format!("/run/netns/{}", names[at]);
            match event {
                Event::Add(at) => {
                    machine.set_container(&path(at), FakeContainer::Present(Some(format!("boot:{number}"))));
                    callers[at].add(machine).expect("added");
                    stack.retain(|name| *name != names[at] && !dead.contains(name));
                    stack.push(names[at]);
                    dead.retain(|name| *name != names[at]);
                }
                Event::Del(at) => {
                    callers[at].del(machine).expect("removed");
                    stack.retain(|name| *name != names[at]);
                }
                Event::Die(at) => {
                    machine.set_container(&path(at), FakeContainer::Gone);
                    dead.push(names[at]);
                }
            }
            stack.reverse();
            prop_assert_eq!(&order(machine, Family::V4), &stack);
            stack.reverse();
        }
        callers.iter().for_each(|one| one.del(machine).expect("removed"));
        prop_assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
        prop_assert!(!dump(machine, Family::V4).contains("CNI-DN-"));
    }
}
