use super::*;
use crate::nftables::Verdict;
use crate::nftables::{Name, TableFamily};

fn id() -> ChainId {
    TableId::fixed(TableFamily::Ip, "t").chain("a")
}

fn transaction(ops: &[Op]) -> Transaction {
    Transaction::from(ops.to_vec())
}

fn chain(id: ChainId) -> [Op; 2] {
    let table = Table { id: id.table.clone(), comment: None };
    [Op::AddTable(table), Op::AddChain(Chain::regular(id))]
}

fn jump(to: &'static str) -> Rule {
    Rule::new(id(), vec![Expression::Verdict(Verdict::Jump(Name::fixed(to)))])
}

#[test]
fn a_transaction_that_is_refused_changes_nothing() {
    let mut fake = FakeNftables::new();
    let [table, a] = chain(id());
    let refused = fake.commit(&transaction(&[table, a, Op::AddRule(jump("b"))]));
    let Err(CommitError::Refused(error)) = refused else { panic!("not refused: {refused:?}") };
    assert_eq!(cni_core::error::Failure::details(&error), "add rule ip t a jump b: no chain ip t b");
    assert_eq!(fake.dump(), "");
}

#[test]
fn a_chain_in_use_stays_and_an_absent_rule_is_refused() {
    let mut fake = FakeNftables::new();
    let b = id().table.chain("b");
    let ops = [chain(id()), chain(b.clone())].concat();
    fake.commit(&transaction(&ops)).expect("made");
    fake.commit(&transaction(&[Op::AddRule(jump("b"))])).expect("filled");
    let before = fake.dump();
    for (op, want) in [
        (Op::DeleteChain(b), "delete chain ip t b: in use"),
        (Op::DeleteRule(id(), 7), "delete rule ip t a handle 7: no such rule"),
        (Op::FlushChain(id().table.chain("c")), "flush chain ip t c: no such chain"),
    ] {
        let refused = fake.commit(&transaction(&[op]));
        let Err(CommitError::Refused(error)) = refused else { panic!("not refused: {refused:?}") };
        assert_eq!(cni_core::error::Failure::details(&error), want);
    }
    assert_eq!(fake.dump(), before);
}

#[test]
fn a_priority_has_the_name_that_nft_has_for_it() {
    use crate::nftables::{Hook, Kind};
    let mut fake = FakeNftables::new();
    let places = [
        (TableFamily::Ip, Hook::Prerouting, -100, "dstnat"),
        (TableFamily::Ip, Hook::Output, -100, "-100"),
        (TableFamily::Inet, Hook::Postrouting, 95, "srcnat - 5"),
        (TableFamily::Inet, Hook::Forward, 5, "filter + 5"),
        (TableFamily::Bridge, Hook::Prerouting, -300, "dstnat"),
    ];
    for (number, (family, hook, priority, want)) in places.into_iter().enumerate() {
        let id = TableId::fixed(family, "t").chain(["a", "b", "c", "d", "e"][number]);
        let [table, _] = chain(id.clone());
        let base = Op::AddChain(Chain::base(id, Kind::Filter, hook, priority));
        fake.commit(&transaction(&[table, base])).expect("made");
        let dump = fake.dump();
        assert!(dump.contains(&format!("hook {hook} priority {want}; policy accept;")), "{dump}");
    }
}
