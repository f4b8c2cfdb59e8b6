use cni_netfilter::nftables::{
    ChainId, Expression, NftChain, NftChange, NftComment, NftName, NftRemoval, NftRule, NftTable, Nftables,
    RuleSelection, RuleTag, TableFamily, TableId, Transaction, UnwantedNftRules, Verdict, remove,
};
use cni_testkit::FakeNftables;

fn table() -> TableId {
    TableId::fixed(TableFamily::Bridge, "nat")
}

fn rule(chain: &ChainId, verdict: Verdict, id: &str) -> NftChange {
    let rule = NftRule::new(chain.clone(), vec![Expression::Verdict(verdict)]);
    NftChange::AddRule(rule.with_comment(NftComment::cut(id)))
}

/// Two containers: each with a chain that leads to another of its own, and a jump from the shared one.
fn host() -> FakeNftables {
    let mut fake = FakeNftables::new();
    let shared = table().chain("PREROUTING");
    let mut ops = vec![
        NftChange::AddTable(NftTable { id: table(), comment: None }),
        NftChange::AddChain(NftChain::regular(shared.clone())),
    ];
    for (id, first, second) in [("a", "a1", "a2"), ("b", "b1", "b2")] {
        let chains = [table().chain(first), table().chain(second)];
        ops.extend(chains.iter().cloned().map(|id| NftChange::AddChain(NftChain::regular(id))));
        ops.push(rule(&shared, Verdict::Jump(NftName::fixed(first)), id));
        ops.push(rule(&chains[0], Verdict::Jump(NftName::fixed(second)), id));
        ops.push(rule(&chains[1], Verdict::Drop, id));
    }
    fake.commit(&Transaction::from(ops)).expect("a host");
    fake
}

fn unwanted() -> NftRemoval {
    let which = RuleSelection::Tagged(RuleTag::Exactly(NftComment::cut("a")));
    NftRemoval {
        rules: vec![UnwantedNftRules { chain: table().chain("PREROUTING"), which }],
        chains: vec![table().chain("a1"), table().chain("a2")],
        ..NftRemoval::default()
    }
}

#[test]
fn what_is_the_attachments_goes_and_the_rest_stays() {
    let mut fake = host();
    remove(&mut fake, &unwanted()).expect("removed");
    let want = "table bridge nat {
\tchain PREROUTING {
\t\tjump b1 comment \"b\"
\t}

\tchain b1 {
\t\tjump b2 comment \"b\"
\t}

\tchain b2 {
\t\tdrop comment \"b\"
\t}
}
";
    assert_eq!((fake.dump().as_str(), fake.commits()), (want, 2));
}

#[test]
fn absence_is_success_and_takes_no_transaction() {
    let mut fake = FakeNftables::new();
    remove(&mut fake, &unwanted()).expect("nothing there");
    assert_eq!((fake.commits(), fake.dump().as_str()), (0, ""));
    let mut fake = host();
    remove(&mut fake, &unwanted()).expect("removed");
    let commits = fake.commits();
    remove(&mut fake, &unwanted()).expect("removed again");
    assert_eq!(fake.commits(), commits);
}

#[test]
fn two_removals_at_once_both_succeed() {
    let mut fake = host();
    let mut other = host();
    remove(&mut other, &unwanted()).expect("removed");
    fake.before_commit(2, other.last_commit().expect("committed").clone());
    remove(&mut fake, &unwanted()).expect("removed");
    assert!(!fake.dump().contains("a1") && fake.dump().contains("jump b1"), "{}", fake.dump());
}

#[test]
fn a_chain_that_a_foreign_rule_leads_to_is_reported() {
    let mut fake = host();
    let foreign = rule(&table().chain("b2"), Verdict::Goto(NftName::fixed("a2")), "mine");
    fake.commit(&Transaction::from(vec![foreign])).expect("someone else");
    let before = fake.dump();
    let error = remove(&mut fake, &unwanted()).expect_err("in use");
    assert_eq!(cni_core::error::Failure::details(&error), "delete chain bridge nat a2: in use");
    assert_eq!(fake.dump(), before);
}

#[test]
fn a_handle_never_deletes_the_rule_that_has_it_after_others_have_loaded_the_tables_again() {
    let (mut fake, shared) = (FakeNftables::new(), table().chain("PREROUTING"));
    let mut ops = vec![
        NftChange::AddTable(NftTable { id: table(), comment: None }),
        NftChange::AddChain(NftChain::regular(shared.clone())),
    ];
    ops.extend(["x", "y", "z"].map(|id| rule(&shared, Verdict::Drop, id)));
    fake.commit(&Transaction::from(ops)).expect("a host");
    let only = |id| {
        let which = RuleSelection::Tagged(RuleTag::Exactly(NftComment::cut(id)));
        NftRemoval { rules: vec![UnwantedNftRules { chain: shared.clone(), which }], ..NftRemoval::default() }
    };
    remove(&mut fake, &only("x")).expect("removed");
    fake.reload_before_commit(3);
    remove(&mut fake, &only("y")).expect("removed");
    assert!(fake.dump().contains("\"z\"") && !fake.dump().contains("\"y\""), "{}", fake.dump());
}
