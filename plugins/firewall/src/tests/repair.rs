//! Repair restores flushed rules in every back end, and looking for missing rules changes nothing.

use super::*;
use cni_netfilter::nftables as nf;
use cni_plugin::missing::MissingPart;
use cni_testkit::FakeIptables;
use cni_testkit::FakeNftables;

const BOTH: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

impl Caller {
    fn parts(&self, machine: &mut FakeHost) -> Vec<MissingPart> {
        lifecycle::find_missing(&Firewall, machine, &self.0)
    }

    fn repair(&self, machine: &mut FakeHost) -> usize {
        lifecycle::repair(&Firewall, machine, &self.0)
    }
}

/// What a flush of everything, and a reload of firewalld, leave.
fn flush(machine: &mut FakeHost) {
    machine.netfilter.iptables = FakeIptables::new();
    machine.netfilter.nftables = FakeNftables::new();
    machine.firewalld.reload();
}

#[test]
fn after_a_flush_all_rules_come_back_in_their_order() {
    for (running, keys) in [
        (false, ""),
        (false, r#""backend":"iptables","iptablesAdminChainName":"NOMAD-ADMIN""#),
        (false, r#""ingressPolicy":"isolated""#),
        (false, r#""backend":"nftables","ingressPolicy":"same-bridge""#),
        (true, ""),
        (true, r#""ingressPolicy":"isolated","firewalldZone":"work""#),
    ] {
        let machine = &mut FakeHost::default();
        machine.firewalld.running = running;
        let callers = [Caller::new("ctr1", keys, BOTH), Caller::on_bridge("ctr2", "br1", keys, &["10.88.1.6/24"])];
        callers.iter().for_each(|caller| drop(caller.add(machine).expect("added")));
        let before = machine.state();
        flush(machine);
        assert_eq!(callers.each_ref().map(|caller| caller.repair(machine)), [1, 1], "{keys}");
        assert_eq!(machine.state(), before, "{keys}");
        callers.iter().for_each(|caller| caller.check(machine).expect("there"));
        assert_eq!(callers.each_ref().map(|caller| caller.repair(machine)), [0, 0], "{keys}");
    }
}

#[test]
fn a_missing_part_names_what_is_missing() {
    for (running, keys, missing) in [
        (false, "", r#"iptables -t filter -A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD"#),
        (false, r#""backend":"nftables""#, "nft inet cni_firewall admin jump CNI-ADMIN"),
        (true, "", "firewalld source 10.88.0.5/32 of zone trusted"),
    ] {
        let machine = &mut FakeHost::default();
        machine.firewalld.running = running;
        let caller = Caller::new("ctr1", keys, BOTH);
        caller.add(machine).expect("added");
        flush(machine);
        let parts = caller.parts(machine);
        assert_eq!(parts.iter().map(|part| part.missing.as_str()).collect::<Vec<_>>(), [missing]);
    }
}

#[test]
fn an_element_of_a_set_is_missed_too() {
    let machine = &mut FakeHost::default();
    let keys = r#""backend":"nftables""#;
    let caller = Caller::new("ctr1", keys, BOTH);
    caller.add(machine).expect("added");
    let before = machine.state();
    nf::remove(&mut machine.netfilter.nftables, &crate::nftables::remove(&["fd00:88::5".parse().expect("address")]))
        .expect("removed");
    let parts = caller.parts(machine);
    let reported: Vec<&str> = parts.iter().map(|part| part.missing.as_str()).collect();
    assert_eq!(reported, ["nft element inet cni_firewall containers_v6 { fd00:88::5 }"]);
    caller.repair(machine);
    assert_eq!(machine.state(), before);
}

/// firewalld has been started since: the rules stay where ADD has put them, and where CHECK looks.
#[test]
fn the_backend_does_not_change() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", BOTH);
    caller.add(machine).expect("added");
    let before = machine.state();
    flush(machine);
    machine.firewalld.running = true;
    caller.repair(machine);
    assert_eq!(machine.state(), before);
    caller.check(machine).expect("there");
}

#[test]
fn an_address_that_is_anothers_by_now_is_passed_over() {
    let machine = &mut FakeHost::default();
    let [old, new] = ["old", "new"].map(|container| Caller::new(container, "", &BOTH[..1]));
    old.add(machine).expect("added");
    new.add(machine).expect("added");
    flush(machine);
    assert_eq!((old.repair(machine), dump(machine, Family::V4).contains("10.88.0.5")), (0, false));
    assert_eq!((new.repair(machine), dump(machine, Family::V4).contains("10.88.0.5")), (1, true));
    assert_eq!(claimed(machine), ["10.88.0.5 n1 new eth0"]);
}

/// The reference claims nothing; what it has made is complete.
#[test]
fn rules_that_nobody_has_claimed_are_unchanged() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", BOTH);
    caller.add(machine).expect("added");
    machine.records.clear();
    assert_eq!((caller.repair(machine), claimed(machine).len()), (0, 0));
    flush(machine);
    assert_eq!((caller.repair(machine), claimed(machine).len()), (1, 2));
}

#[test]
fn without_a_backend_nothing_is_missing() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", r#""backend":"none""#, BOTH);
    caller.add(machine).expect("added");
    assert_eq!(caller.repair(machine), 0);
}

#[test]
fn a_firewalld_that_knows_no_such_zone_is_a_failure() {
    let machine = &mut FakeHost::default();
    machine.firewalld.running = true;
    let caller = Caller::new("ctr1", r#""firewalldZone":"nope""#, BOTH);
    let error = Firewall.find_missing(&caller.request("ADD"), machine).expect_err("unknown");
    assert_eq!(error.to_string(), "INVALID_ZONE: nope");
}
