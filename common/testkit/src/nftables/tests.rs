use cni_netfilter::nftables::NftTable;

use super::*;
use cni_netfilter::nftables::{BaseChainType, Hook, NftName, TableFamily, Verdict};

fn id() -> ChainId {
    TableId::fixed(TableFamily::Ip, "t").chain("a")
}

fn transaction(ops: &[NftChange]) -> Transaction {
    Transaction::from(ops.to_vec())
}

fn chain(id: ChainId) -> [NftChange; 2] {
    let table = NftTable { id: id.table.clone(), comment: None };
    [NftChange::AddTable(table), NftChange::AddChain(NftChain::regular(id))]
}

fn jump(to: &'static str) -> NftRule {
    NftRule::new(id(), vec![Expression::Verdict(Verdict::Jump(NftName::fixed(to)))])
}

#[test]
fn a_transaction_that_is_refused_changes_nothing() {
    let mut fake = FakeNftables::new();
    let [table, a] = chain(id());
    let refused = fake.commit(&transaction(&[table, a, NftChange::AddRule(jump("b"))]));
    let Err(TransactionError::Refused(error)) = refused else { panic!("not refused: {refused:?}") };
    assert_eq!(cni_core::error::Failure::details(&error), "add rule ip t a jump b: no chain ip t b");
    assert_eq!(fake.dump(), "");
}

#[test]
fn a_chain_in_use_stays_and_an_absent_rule_is_refused() {
    let mut fake = FakeNftables::new();
    let b = id().table.chain("b");
    let ops = [chain(id()), chain(b.clone())].concat();
    fake.commit(&transaction(&ops)).expect("made");
    fake.commit(&transaction(&[NftChange::AddRule(jump("b"))])).expect("filled");
    let before = fake.dump();
    for (op, want) in [
        (NftChange::DeleteChain(b), "delete chain ip t b: in use"),
        (NftChange::DeleteRule(id(), 7), "delete rule ip t a handle 7: no such rule"),
        (NftChange::FlushChain(id().table.chain("c")), "flush chain ip t c: no such chain"),
    ] {
        let refused = fake.commit(&transaction(&[op]));
        let Err(TransactionError::Refused(error)) = refused else { panic!("not refused: {refused:?}") };
        assert_eq!(cni_core::error::Failure::details(&error), want);
    }
    assert_eq!(fake.dump(), before);
}

#[test]
fn a_priority_has_the_name_that_nft_has_for_it() {
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
        let base = NftChange::AddChain(NftChain::base(id, BaseChainType::Filter, hook, priority));
        fake.commit(&transaction(&[table, base])).expect("made");
        let dump = fake.dump();
        assert!(dump.contains(&format!("hook {hook} priority {want}; policy accept;")), "{dump}");
    }
}
