//! Two interfaces of one container in one network, each with ports.

use super::*;

const TCP_81: &str = r#"{"hostPort":81,"containerPort":81,"protocol":"tcp"}"#;

/// `eth0` and `eth1` of one container.
fn interfaces(keys: &str) -> [Caller; 2] {
    let eth0 = Caller::new("ctr1", keys, TCP_8080, &["10.88.0.5/24"]);
    let mut eth1 = Caller::new("ctr1", keys, TCP_81, &["10.88.0.6/24"]);
    eth1.0.ifname = "eth1".to_owned();
    [eth0, eth1]
}

fn rules(machine: &FakeHost) -> String {
    dump(machine, Family::V4) + &machine.netfilter.nftables.dump()
}

#[test]
fn each_interface_has_its_ports_and_its_del_removes_these_only() {
    for keys in BACKENDS {
        for first in [0, 1] {
            let machine = &mut routed();
            let both = interfaces(keys);
            for one in [&both[0], &both[1], &both[0], &both[1]] {
                one.add(machine).expect("added");
            }
            let targets = |machine: &FakeHost| {
                let rules = rules(machine);
                ["10.88.0.5:80", "10.88.0.6:81"].map(|target| rules.contains(target))
            };
            assert_eq!(targets(machine), [true, true], "{keys}");
            both.iter().for_each(|one| one.check(machine).expect("there"));
            for _ in 0..2 {
                both[first].del(machine).expect("removed");
                assert_eq!(targets(machine), [first != 0, first != 1], "{keys}: without {first}");
                both[1 - first].check(machine).expect("there");
            }
            both[first].add(machine).expect("added again");
            assert_eq!(targets(machine), [true, true], "{keys}");
            both.iter().for_each(|one| one.del(machine).expect("removed"));
            assert_eq!(targets(machine), [false, false], "{keys}");
            assert!(machine.records.is_empty(), "{:?}", machine.records.lines());
        }
    }
}

#[test]
fn the_first_interface_has_the_chain_that_the_reference_finds() {
    let machine = &mut routed();
    let [eth0, eth1] = interfaces("");
    eth0.add(machine).expect("added");
    let alone = dump(machine, Family::V4);
    eth1.add(machine).expect("added");
    let dnat = format!("-A {CHAIN} -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80");
    assert!(alone.contains(&dnat) && dump(machine, Family::V4).contains(&dnat), "{alone}");
    assert_eq!(dump(machine, Family::V4).matches("--to-destination").count(), 2);
}

/// What is flushed comes back, each in its chain.
#[test]
fn a_repair_restores_the_rules_of_both() {
    let machine = &mut routed();
    let both = interfaces("");
    both.iter().for_each(|one| drop(one.add(machine).expect("added")));
    let before = dump(machine, Family::V4);
    machine.netfilter.iptables = cni_testkit::FakeIptables::new();
    for one in &both {
        assert!(lifecycle::repair(&Portmap, machine, &one.0) > 0);
    }
    assert_eq!(dump(machine, Family::V4), before);
}
