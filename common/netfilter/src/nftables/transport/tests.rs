use super::*;
use crate::nftables::{BaseChainType, Expression, Hook, NftComment, NftName, Policy, SetId, TableFamily, TableId};
use cni_core::family::Family;

fn table() -> TableId {
    TableId::fixed(TableFamily::Inet, "t")
}

fn add(expressions: Vec<Expression>) -> NftChange {
    NftChange::AddRule(NftRule::new(table().chain("c"), expressions))
}

fn words(words: &[&str]) -> Expression {
    Expression::Raw(words.iter().map(|&word| word.to_owned()).collect())
}

#[test]
fn a_transaction_is_a_script_of_nft() {
    let base = |policy| {
        let base = BaseChain { kind: BaseChainType::Nat, hook: Hook::Postrouting, priority: 100, policy };
        NftChange::AddChain(NftChain { id: table().chain("p"), base: Some(base), comment: None })
    };
    let comment = Some(NftComment::cut("a b"));
    let set = SetId { table: table(), name: NftName::fixed("s") };
    let elements = || SetElements { set: set.clone(), addresses: vec![[10, 0, 0, 1].into()] };
    let transaction = Transaction::from(vec![
        NftChange::AddTable(NftTable { id: table(), comment: None }),
        NftChange::AddTable(NftTable { id: table(), comment: comment.clone() }),
        NftChange::AddChain(NftChain::regular(table().chain("c"))),
        NftChange::AddChain(NftChain { comment: comment.clone(), ..NftChain::regular(table().chain("c")) }),
        base(None),
        base(Some(Policy::Drop)),
        NftChange::AddSet(Set { id: set.clone(), family: Family::V4 }),
        NftChange::AddElements(elements()),
        NftChange::DeleteElements(elements()),
        NftChange::FlushChain(table().chain("c")),
        add(vec![words(&["ip", "saddr", "!=", "192.0.2.0/24"]), Expression::LocalDestination]),
        NftChange::AddRule(NftRule { comment, ..NftRule::new(table().chain("c"), vec![Expression::Masquerade]) }),
        NftChange::DeleteRule(table().chain("c"), 17),
        NftChange::DeleteChain(table().chain("c")),
    ]);
    let want = r#"add table inet t
add table inet t { comment "a b" ; }
add chain inet t c
add chain inet t c { comment "a b" ; }
add chain inet t p { type nat hook postrouting priority 100 ; }
add chain inet t p { type nat hook postrouting priority 100 ; policy drop ; }
add set inet t s { type ipv4_addr ; }
add element inet t s { 10.0.0.1 }
delete element inet t s { 10.0.0.1 }
flush chain inet t c
add rule inet t c ip saddr != 192.0.2.0/24 fib daddr type local
add rule inet t c masquerade comment "a b"
delete rule inet t c handle 17
delete chain inet t c
"#;
    assert_eq!(transaction.script().expect("a script"), want);
}

#[test]
fn words_cannot_smuggle_a_command_into_a_script() {
    for word in ["a;flush ruleset", "a\nflush ruleset", "a # b", "a\0"] {
        let transaction = Transaction::from(vec![add(vec![words(&[word])])]);
        let error = transaction.script().expect_err("refused");
        let line = format!("add rule inet t c {word}");
        let want = format!("a rule of nftables holds a line break, a semicolon or a number sign: {line:?}");
        assert_eq!((error.to_string(), cni_core::error::Failure::code(&error).number()), (want, 7));
    }
}
