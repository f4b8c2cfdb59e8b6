//! firewalld beside iptables: which of the two gets the rules, and where they are found again.

use std::net::IpAddr;

use super::*;
use cni_model::link::{Address, Link};
use cni_model::plan::Ns;
use cni_netfilter::firewalld::Zone;
use cni_plugin::host::Host;
use cni_testkit::FakeContainer;

const BOTH: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

const TRUSTED: [&str; 2] = ["trusted 10.88.0.5", "trusted fd00:88::5"];

fn with_firewalld() -> FakeHost {
    let mut machine = FakeHost::default();
    machine.firewalld.running = true;
    machine
}

fn zones(machine: &FakeHost) -> Vec<String> {
    machine.firewalld.sources()
}

fn is_bare(machine: &FakeHost) -> bool {
    let rules = Family::ALL.map(|family| dump(machine, family)).concat();
    !rules.contains("/32") && !rules.contains("/128") && machine.firewalld.sources().is_empty()
}

#[test]
fn del_finds_what_was_made_before_firewalld_came_or_went() {
    for before in [false, true] {
        let machine = &mut FakeHost::default();
        machine.firewalld.running = before;
        let caller = Caller::new("ctr1", "", BOTH);
        caller.add(machine).expect("added");
        if before {
            machine.firewalld.stop();
        } else {
            machine.firewalld.running = true;
            caller.check(machine).expect("its rules are still there");
        }
        let listed = machine
            .iptables_cost(|machine| Caller::with_prev_result("ctr1", "", "null").del(machine).expect("removed"));
        assert_eq!((is_bare(machine), claimed(machine).len()), (true, 0));
        assert_eq!(listed == (0, 0), before, "what firewalld kept needs no process");
    }
}

/// As in a rootless container. A configuration that names firewalld is refused as firewalld does.
#[test]
fn iptables_is_used_where_firewalld_does_not_serve_this_user() {
    for keys in ["", r#""backend":"firewalld""#] {
        let machine = &mut with_firewalld();
        machine.firewalld.forbids = true;
        let caller = Caller::new("ctr1", keys, BOTH);
        match (caller.add(machine), keys) {
            (Ok(_), "") => caller.check(machine).expect("its rules are there"),
            (Err(error), keys) if !keys.is_empty() => {
                assert!(error.to_string().starts_with("Not Authorized"), "{error}")
            }
            (added, keys) => panic!("{keys}: {added:?}"),
        }
        assert_eq!(dump(machine, Family::V4).contains("10.88.0.5/32"), keys.is_empty());
        caller.del(machine).expect("removed");
        assert_eq!((is_bare(machine), claimed(machine).len()), (true, 0));
    }
}

#[test]
fn a_container_that_was_added_to_both_is_removed_from_both() {
    for keys in ["", r#""backend":"iptables""#, r#""backend":"none""#] {
        let machine = &mut FakeHost::default();
        let caller = Caller::new("ctr1", "", BOTH);
        caller.add(machine).expect("added to iptables");
        machine.firewalld.running = true;
        caller.add(machine).expect("added to firewalld");
        machine.firewalld.take(IpAddr::from([10, 88, 0, 5]));
        let want = (
            100,
            "failed to find the address 10.88.0.5/32 in trusted zone".to_owned(),
            "this fails: firewall-cmd --zone=trusted --query-source=10.88.0.5/32".to_owned(),
        );
        assert_eq!(error_parts(caller.check(machine).expect_err("missing")), want);
        machine.firewalld.insert(&Zone::fixed("trusted"), IpAddr::from([10, 88, 0, 5]));
        Caller::with_prev_result("ctr1", keys, "null").del(machine).expect("removed");
        assert!(is_bare(machine) && machine.records.is_empty());
    }
}

#[test]
fn a_late_del_leaves_the_source_of_the_addresss_new_owner() {
    let machine = &mut FakeHost::default();
    let (old, new) = (Caller::new("old", "", BOTH), Caller::new("new", "", BOTH));
    old.add(machine).expect("added to iptables");
    machine.firewalld.running = true;
    new.add(machine).expect("takes the addresses over");
    old.del(machine).expect("nothing of its own is left");
    assert_eq!(zones(machine), TRUSTED);
    new.check(machine).expect("untouched");
    new.del(machine).expect("removed");
    assert!(is_bare(machine), "the old one's rules go with the new one's source");
}

/// The namespace of a container, or what has become of it.
fn set_container(machine: &mut FakeHost, name: &str, container: FakeContainer) {
    machine.set_container(&format!("/run/netns/{name}"), container);
}

fn living(name: &str) -> FakeContainer {
    FakeContainer::Present(Some(format!("boot:{name}")))
}

/// It died without a DEL, and its address was given away.
#[test]
fn what_a_dead_container_has_left_is_out_of_the_way() {
    let backends = [
        r#""backend":"firewalld""#,
        r#""backend":"firewalld","firewalldZone":"work""#,
        r#""backend":"iptables""#,
        r#""backend":"nftables""#,
    ];
    for (old_keys, new_keys) in backends.iter().flat_map(|old| backends.iter().map(move |new| (old, new))) {
        let machine = &mut with_firewalld();
        ["old", "new"].into_iter().for_each(|name| set_container(machine, name, living(name)));
        machine.enter("/run/netns/new").expect("it lives");
        machine.add_link(Ns::Container, Link { name: "eth0".to_owned(), ..Link::default() });
        for address in BOTH {
            let cidr = address.parse().expect("a CIDR");
            machine.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
        }
        let only = &mut with_firewalld();
        let (old, new) = (Caller::new("old", old_keys, BOTH), Caller::new("new", new_keys, BOTH));
        new.add(only).expect("added");
        old.add(machine).expect("added");
        set_container(machine, "old", FakeContainer::Gone);
        new.add(machine).expect("added");
        new.check(machine).expect("there");
        let addresses = |machine: &FakeHost| -> Vec<String> {
            let all = Family::ALL.map(|family| dump(machine, family)).concat() + &machine.netfilter.nftables.dump();
            let lines = all.lines().filter(|line| line.contains("10.88.0.5") || line.contains("fd00:88::5"));
            lines.map(str::to_owned).chain(zones(machine)).collect()
        };
        assert_eq!(addresses(machine), addresses(only), "{old_keys} {new_keys}");
        old.del(machine).expect("a late DEL");
        assert_eq!(addresses(machine), addresses(only), "{old_keys} {new_keys}");
        new.del(machine).expect("removed");
        assert_eq!((addresses(machine).len(), machine.records.lines()), (0, vec![]), "{old_keys} {new_keys}");
    }
}

/// Nobody knows whether it lives.
#[test]
fn a_source_of_a_container_that_may_live_stays_in_its_zone() {
    for container in [FakeContainer::Closed, FakeContainer::Present(None)] {
        let machine = &mut with_firewalld();
        let old = Caller::new("old", "", BOTH);
        let before = if container == FakeContainer::Closed { living("old") } else { container.clone() };
        set_container(machine, "old", before);
        machine.enter("/run/netns/old").expect("it lives");
        machine.add_link(Ns::Container, Link { name: "eth0".to_owned(), ..Link::default() });
        for address in BOTH {
            let cidr = address.parse().expect("a CIDR");
            machine.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
        }
        old.add(machine).expect("added");
        set_container(machine, "old", container);
        let error = Caller::new("new", r#""firewalldZone":"work""#, BOTH).add(machine).expect_err("refused");
        assert!(error.to_string().contains("ZONE_CONFLICT"), "{error}");
        assert_eq!(zones(machine), TRUSTED);
    }
}

#[test]
fn an_add_that_fails_keeps_what_an_earlier_one_made() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", &["10.88.0.5/24"]);
    caller.add(machine).expect("added to iptables");
    let rules = dump(machine, Family::V4);
    machine.firewalld.running = true;
    machine.firewalld.insert(&Zone::fixed("work"), IpAddr::from([10, 88, 0, 5]));
    for container in ["ctr1", "ctr2"] {
        Caller::new(container, "", &["10.88.0.5/24"]).add(machine).expect_err("conflict");
        assert_eq!(claimed(machine), ["10.88.0.5 n1 ctr1 eth0"]);
    }
    assert_eq!(dump(machine, Family::V4), rules);
    caller.del(machine).expect("removed");
    assert_eq!(zones(machine), ["work 10.88.0.5"], "somebody else's");
    assert!(machine.records.is_empty() && !dump(machine, Family::V4).contains("/32"));
}

#[test]
fn what_nobody_wrote_down_is_looked_for() {
    for (keys, sources) in [
        ("", 0),
        (r#""backend":"firewalld""#, 0),
        (r#""backend":"anything""#, 0),
        (r#""backend":7"#, 0),
        (r#""backend":"iptables""#, 2),
    ] {
        let machine = &mut with_firewalld();
        Caller::new("ctr1", "", BOTH).add(machine).expect("added");
        machine.records.clear();
        let caller = Caller::new("ctr1", keys, BOTH);
        assert_eq!(machine.iptables_cost(|machine| caller.del(machine).expect("removed")).0, 0);
        assert_eq!(machine.firewalld.sources().len(), sources, "{keys}");
    }
}

#[test]
fn a_zone_that_is_gone_keeps_del_from_nothing() {
    let machine = &mut with_firewalld();
    Caller::new("ctr1", r#""backend":"iptables""#, BOTH).add(machine).expect("added");
    machine.records.clear();
    Caller::new("ctr1", r#""firewalldZone":"nope""#, BOTH).del(machine).expect("removed");
    assert!(is_bare(machine));
}
