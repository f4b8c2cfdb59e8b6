//! `remove` on a table in memory: what is ours goes, what is not stays.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{
    Batch, BatchLine, IptablesRemoval, IptablesRule, IptablesTable, JumpRemoval, OwnedChainRef, remove,
};
use cni_testkit::FakeIptables;

const HOST: &str = "\
-N CNI-1
-N CNI-2
-A CNI-1 -d 10.1.0.0/24 -j ACCEPT
-A CNI-1 ! -d 224.0.0.0/4 -j MASQUERADE
-A CNI-2 ! -d 224.0.0.0/4 -j MASQUERADE
-A POSTROUTING -s 10.1.0.2/32 -j CNI-1
-A POSTROUTING -s 10.1.0.3/32 -j CNI-2
-A POSTROUTING -s 10.9.0.2/32 -j CNI-1";

const OTHER: &str = "\
-N CNI-2
-A CNI-2 ! -d 224.0.0.0/4 -j MASQUERADE
-A POSTROUTING -s 10.1.0.3/32 -j CNI-2";

fn unwanted(jumps: JumpRemoval, rules: &[&str]) -> IptablesRemoval {
    let parents = vec![ChainName::fixed("POSTROUTING")];
    IptablesRemoval {
        family: Family::V4,
        table: IptablesTable::Nat,
        chains: vec![OwnedChainRef { name: ChainName::fixed("CNI-1"), parents, jumps }],
        rules: rules.iter().map(|line| IptablesRule::parse(line).expect("a rule")).collect(),
    }
}

fn host(text: &str) -> FakeIptables {
    let mut fake = FakeIptables::new();
    fake.load(Family::V4, IptablesTable::Nat, text).expect("loads");
    fake
}

fn dump(fake: &FakeIptables) -> String {
    fake.dump(Family::V4, IptablesTable::Nat)
}

const FIRST: &str = "-A POSTROUTING -s 10.1.0.2/32 -j CNI-1";
const SECOND: &str = "-A POSTROUTING -s 10.9.0.2/32 -j CNI-1";

#[test]
fn what_is_as_expected_goes_in_one_batch() {
    let mut fake = host(HOST);
    remove(&mut fake, &unwanted(JumpRemoval::All, &[FIRST, SECOND])).expect("removed");
    assert_eq!((dump(&fake).as_str(), fake.commits(), fake.lists()), (OTHER, 1, 0));
}

#[test]
fn rules_that_nobody_expected_go_as_well() {
    for rules in [&[FIRST][..], &[], &["-A POSTROUTING -s 10.7.7.7/32 -j CNI-1"]] {
        let mut fake = host(HOST);
        remove(&mut fake, &unwanted(JumpRemoval::All, rules)).expect("removed");
        assert_eq!(dump(&fake), OTHER, "{rules:?}");
    }
}

#[test]
fn absence_is_success_and_changes_nothing() {
    let mut fake = host(OTHER);
    for rules in [&[FIRST][..], &[]] {
        remove(&mut fake, &unwanted(JumpRemoval::All, rules)).expect("removed");
        assert_eq!(dump(&fake), OTHER);
    }
    assert_eq!(fake.commits(), 1);
}

#[test]
fn every_copy_goes() {
    let mut fake = host(&format!("{HOST}\n{FIRST}\n{FIRST}"));
    remove(&mut fake, &unwanted(JumpRemoval::All, &[FIRST])).expect("removed");
    assert_eq!(dump(&fake), OTHER);
}

#[test]
fn the_rules_of_addresses_that_stay_keep_the_chain() {
    let mut fake = host(HOST);
    let kept = vec!["10.9.0.2".parse().expect("address")];
    remove(&mut fake, &unwanted(JumpRemoval::AllBut(kept), &[FIRST])).expect("removed");
    assert_eq!(dump(&fake), HOST.replace(&format!("{FIRST}\n"), ""));
    let gone = vec!["10.9.0.99".parse().expect("address")];
    remove(&mut fake, &unwanted(JumpRemoval::AllBut(gone), &[])).expect("removed");
    assert_eq!(dump(&fake), OTHER);
}

#[test]
fn only_listed_rules_go_when_so_asked() {
    let mut fake = host(HOST);
    remove(&mut fake, &unwanted(JumpRemoval::Listed, &[FIRST])).expect("removed");
    assert_eq!(dump(&fake), HOST.replace(&format!("{FIRST}\n"), ""));
    remove(&mut fake, &unwanted(JumpRemoval::Listed, &[SECOND])).expect("removed");
    assert_eq!(dump(&fake), OTHER);
}

#[test]
fn rules_without_a_chain_go_with_all_their_copies_and_no_other() {
    let accept = "-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT";
    let other = "-N CNI-FORWARD\n-A CNI-FORWARD -s 10.88.0.50/32 -j ACCEPT";
    let mut fake = FakeIptables::new();
    fake.load(Family::V4, IptablesTable::Filter, &format!("{other}\n{accept}\n{accept}")).expect("loads");
    let rules = vec![IptablesRule::parse(accept).expect("a rule")];
    let unwanted = IptablesRemoval { family: Family::V4, table: IptablesTable::Filter, chains: Vec::new(), rules };
    remove(&mut fake, &unwanted).expect("removed");
    remove(&mut fake, &unwanted).expect("removed");
    assert_eq!(fake.dump(Family::V4, IptablesTable::Filter), other);
    assert_eq!((fake.lists(), fake.commits()), (2, 1));
}

#[test]
fn a_chain_that_foreign_rules_use_is_at_least_emptied_and_said_so() {
    let foreign = "-A OUTPUT -d 10.1.0.2/32 -j CNI-1";
    let mut fake = host(&format!("{HOST}\n{foreign}"));
    let error = remove(&mut fake, &unwanted(JumpRemoval::All, &[FIRST])).expect_err("in use");
    assert_eq!(error.to_string(), "the v4 chain CNI-1 of table nat is still in use");
    let text = dump(&fake);
    assert!(
        text.contains(foreign) && !text.contains("-A CNI-1") && !text.contains("POSTROUTING -s 10.1.0.2/32"),
        "{text}"
    );
}

#[test]
fn a_rule_that_appears_in_between_is_seen_on_the_next_look() {
    let mut fake = host(HOST);
    let late = IptablesRule::parse("-A POSTROUTING -s 10.5.5.5/32 -j CNI-1").expect("a rule");
    let ops = vec![BatchLine::Append(late)];
    fake.before_commit(2, Batch { family: Family::V4, table: IptablesTable::Nat, ops });
    remove(&mut fake, &unwanted(JumpRemoval::All, &[FIRST])).expect("removed");
    assert_eq!((dump(&fake).as_str(), fake.commits()), (OTHER, 3));
}

#[test]
fn a_failure_from_outside_is_reported() {
    let mut fake = host(HOST);
    fake.fail_commit(1);
    let error = remove(&mut fake, &unwanted(JumpRemoval::All, &[FIRST])).expect_err("failed");
    assert_eq!(error.to_string(), "fake failed, as it was told to");
    assert_eq!(dump(&fake), HOST);
}

#[test]
fn a_plan_reads_like_a_listing() {
    let kept = vec!["10.9.0.2".parse().expect("address")];
    assert_eq!(
        unwanted(JumpRemoval::AllBut(kept), &[FIRST]).to_string(),
        format!("remove v4 nat\n  chain CNI-1, all jumps but from 10.9.0.2 in POSTROUTING\n  {FIRST}")
    );
}
