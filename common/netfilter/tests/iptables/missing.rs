//! `missing` on a table in memory: names the rule, writes nothing.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::RulePosition;
use cni_netfilter::iptables::{
    ExistingChain, IptablesRule, IptablesRuleset, IptablesTable, Match, OwnedChain, RulePlacement, SharedRule, Target,
    missing,
};
use cni_testkit::FakeIptables;

const HOST: &str = "\
-N CNI-1
-A CNI-1 -d 10.1.0.0/24 -j ACCEPT
-A CNI-1 ! -s 10.3.0.0/16 -j MASQUERADE
-A OUTPUT -j RETURN
-A POSTROUTING -s 10.1.0.2/32 -j CNI-1";

fn want() -> IptablesRuleset {
    let rule = |line: &str| IptablesRule::parse(line).expect("a rule");
    let words = ["!", "--source", "10.3.0.0/16"].map(str::to_owned).to_vec();
    let own = ChainName::fixed("CNI-1");
    let rules = vec![
        rule("-A CNI-1 -d 10.1.0.0/24 -j ACCEPT"),
        IptablesRule::new(own.clone(), vec![Match::Raw(words)], Target::Masquerade),
    ];
    IptablesRuleset {
        family: Family::V4,
        table: IptablesTable::Nat,
        shared_chains: Vec::new(),
        shared: vec![SharedRule { rule: rule("-A OUTPUT -j RETURN"), place: RulePlacement::First }],
        chains: vec![OwnedChain { name: own, rules, existing: ExistingChain::Merge }],
        rules: vec![rule("-A POSTROUTING -s 10.1.0.2/32 -j CNI-1")],
        position: RulePosition::Back,
    }
}

fn typed() -> IptablesRuleset {
    let mut want = want();
    for chain in &mut want.chains {
        chain.rules[1] = IptablesRule::parse("-A CNI-1 ! -s 10.3.0.0/16 -j MASQUERADE").expect("a rule");
    }
    want
}

fn look(text: &str, want: &IptablesRuleset) -> (Option<String>, usize, usize) {
    let mut fake = FakeIptables::new();
    fake.load(Family::V4, IptablesTable::Nat, text).expect("loads");
    let before = fake.dump(Family::V4, IptablesTable::Nat);
    let found = missing(&mut fake, want).expect("looked").map(IptablesRule::to_string);
    assert_eq!(fake.dump(Family::V4, IptablesTable::Nat), before);
    (found, fake.commits(), fake.lists())
}

#[test]
fn nothing_is_missing_after_one_batch() {
    assert_eq!(look(HOST, &typed()), (None, 1, 0));
}

#[test]
fn each_missing_rule_is_named() {
    for line in HOST.lines().filter(|line| line.starts_with("-A")) {
        let text = HOST.replace(line, "");
        assert_eq!(look(&text, &typed()).0.as_deref(), Some(line));
    }
}

#[test]
fn a_missing_chain_is_a_missing_rule() {
    let (found, _, _) = look("-A OUTPUT -j RETURN", &typed());
    assert_eq!(found.as_deref(), Some("-A CNI-1 -d 10.1.0.0/24 -j ACCEPT"));
}

#[test]
fn a_users_words_that_nothing_fits_are_missing_as_they_are() {
    let (found, _, _) = look(HOST, &want());
    assert_eq!(found.as_deref(), Some("-A CNI-1 ! --source 10.3.0.0/16 -j MASQUERADE"));
}

#[test]
fn a_failure_is_no_absence() {
    let mut fake = FakeIptables::new();
    fake.fail_commit(1);
    let error = missing(&mut fake, &typed()).expect_err("failed");
    assert_eq!(error.to_string(), "fake failed, as it was told to");
}

#[test]
fn a_rule_that_is_behind_the_one_that_it_must_be_above_is_missing_there() {
    let (upper, lower) = ("-A POSTROUTING -s 10.1.0.2/32 -j CNI-1", "-A POSTROUTING -j RETURN");
    let rule = |line: &str| IptablesRule::parse(line).expect("a rule");
    let mut want = typed();
    want.rules.clear();
    want.shared = vec![SharedRule { rule: rule(upper), place: RulePlacement::Above(rule(lower)) }];
    assert_eq!(look(HOST, &want).0, None, "the other one is not there");
    let [in_order, out_of_order] = [[upper, lower], [lower, upper]].map(|order| HOST.replace(upper, &order.join("\n")));
    assert_eq!(look(&in_order, &want).0, None);
    assert_eq!(look(&out_of_order, &want).0.as_deref(), Some(upper));
}

#[test]
fn the_order_counts_where_it_is_wanted() {
    let in_order = |existing| {
        let mut want = typed();
        want.chains[0].existing = existing;
        want
    };
    let (first, second) = ("-A CNI-1 -d 10.1.0.0/24 -j ACCEPT\n", "-A CNI-1 ! -s 10.3.0.0/16 -j MASQUERADE\n");
    let swapped = HOST.replace(&format!("{first}{second}"), &format!("{second}{first}"));
    assert_ne!(swapped, HOST);
    assert_eq!(look(&swapped, &in_order(ExistingChain::Replace)), (None, 1, 0));
    assert_eq!(look(&swapped, &in_order(ExistingChain::ReplaceInOrder)), (Some(second.trim_end().to_owned()), 1, 1));
    let between = HOST.replace(second, &format!("-A CNI-1 -s 10.9.9.9/32 -j RETURN\n{second}"));
    assert_eq!(look(&between, &in_order(ExistingChain::ReplaceInOrder)), (None, 1, 1));
}
