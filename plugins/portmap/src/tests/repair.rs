//! What others flush comes back, for the attachment that asks, and nothing is looked at with effect.

use super::*;
use cni_plugin::missing::MissingPart;
use cni_testkit::FakeIptables;

const NFT: &str = r#""backend":"nftables""#;
const UDP_53: &str = r#"{"hostPort":53,"containerPort":5353,"protocol":"udp"}"#;
const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

impl Caller {
    fn parts(&self, machine: &mut FakeHost) -> Vec<MissingPart> {
        lifecycle::find_missing(&Portmap, machine, &self.0)
    }

    fn repair(&self, machine: &mut FakeHost) -> usize {
        lifecycle::repair(&Portmap, machine, &self.0)
    }
}

/// Both packet filters; the settings are no rules.
fn rules(machine: &FakeHost) -> [String; 3] {
    [dump(machine, Family::V4), dump(machine, Family::V6), machine.netfilter.nftables.dump()]
}

/// Two containers, one with both families and two protocols.
fn callers(keys: &str) -> [Caller; 2] {
    let both = format!("{TCP_8080},{UDP_53}");
    [
        Caller::new("ctr1", keys, &both, DUAL),
        Caller::new("ctr2", keys, r#"{"hostPort":81,"containerPort":81,"protocol":"tcp"}"#, &DUAL[1..]),
    ]
}

#[test]
fn after_a_flush_all_rules_come_back_in_their_order() {
    for keys in ["", NFT, r#""snat":false"#, r#""backend":"nftables","snat":false"#] {
        let machine = &mut routed();
        let callers = callers(keys);
        callers.iter().for_each(|caller| drop(caller.add(machine).expect("added")));
        let before = rules(machine);
        machine.netfilter.iptables = FakeIptables::new();
        machine.netfilter.nftables = FakeNftables::new();
        let guarded = usize::from(!keys.contains("snat"));
        assert_eq!(callers.each_ref().map(|caller| caller.repair(machine)), [2 + guarded, 1], "{keys}");
        assert_eq!(rules(machine), before, "{keys}");
        callers.iter().for_each(|caller| caller.check(machine).expect("there"));
        assert_eq!(callers.each_ref().map(|caller| caller.repair(machine)), [0, 0], "{keys}");
    }
}

/// A rule that is alone in its place comes back where it was.
#[test]
fn every_single_rule_of_iptables_is_missed() {
    let caller = Caller::new("ctr1", "", &format!("{TCP_8080},{UDP_53}"), &["10.88.0.5/24"]);
    let machine = &mut routed();
    caller.add(machine).expect("added");
    let whole = dump(machine, Family::V4);
    let lines: Vec<&str> = whole.lines().collect();
    let rules = lines.iter().filter(|line| line.starts_with("-A "));
    assert_eq!(rules.clone().count(), 13, "{whole}");
    for rule in rules {
        let others: Vec<&str> = lines.iter().copied().filter(|line| line != rule).collect();
        machine.netfilter.iptables = FakeIptables::new();
        machine.netfilter.iptables.load(Family::V4, IptablesTable::Nat, &others.join("\n")).expect("rules");
        let parts = caller.parts(machine);
        assert_eq!(
            parts.iter().map(|part| part.missing.clone()).collect::<Vec<_>>(),
            [format!("iptables -t nat {rule}")]
        );
        caller.repair(machine);
        let sorted = |text: &str| -> Vec<String> {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&dump(machine, Family::V4)), sorted(&whole), "without {rule}");
        assert_eq!(caller.repair(machine), 0, "without {rule}");
    }
}

#[test]
fn the_guard_comes_back_alone() {
    let caller = Caller::new("ctr1", "", TCP_8080, &DUAL[..1]);
    let machine = &mut routed();
    caller.add(machine).expect("added");
    let before = rules(machine);
    machine.netfilter.nftables = FakeNftables::new();
    let parts = caller.parts(machine);
    let reported: Vec<&str> = parts.iter().map(|part| part.missing.as_str()).collect();
    assert_eq!(reported, [r#"nft inet cni_plugins_localnet prerouting iifname != "lo" ip daddr 127.0.0.0/8 drop"#]);
    caller.repair(machine);
    assert_eq!(rules(machine), before);
}

#[test]
fn without_nf_tables_there_is_no_guard_to_miss() {
    let caller = Caller::new("ctr1", r#""backend":"iptables""#, TCP_8080, &DUAL[..1]);
    let machine = &mut routed();
    machine.netfilter.nftables = FakeNftables::unsupported();
    caller.add(machine).expect("added");
    assert_eq!(caller.repair(machine), 0);
}

#[test]
fn connections_that_went_elsewhere_meanwhile_are_forgotten() {
    for keys in ["", NFT] {
        let caller = Caller::new("ctr1", keys, UDP_53, &DUAL[..1]);
        let machine = &mut routed();
        caller.add(machine).expect("added");
        machine.clear_log();
        caller.repair(machine);
        assert_eq!(machine.forgotten(), [""; 0], "{keys}");
        machine.netfilter.iptables = FakeIptables::new();
        machine.netfilter.nftables = FakeNftables::new();
        caller.repair(machine);
        assert_eq!(machine.forgotten(), ["forget UDP flows to *:53 not answered by 10.88.0.5"], "{keys}");
    }
}

#[test]
fn what_cannot_be_read_is_a_failure() {
    let caller = Caller::new("ctr1", r#""backend":"iptables""#, TCP_8080, &DUAL[1..]);
    let machine = &mut routed();
    machine.netfilter.iptables.uninstall([Family::V6]);
    let error = Portmap.find_missing(&caller.request("ADD"), machine).expect_err("no program");
    assert_eq!((error.code().number(), error.to_string().contains("ip6tables-restore")), (104, true));
    let error =
        Portmap.find_missing(&Caller::with("ctr1", "", "{}", "null").request("ADD"), machine).expect_err("refused");
    assert_eq!((error.code().number(), error.to_string().as_str()), (7, "Required prevResult missing"));
}
