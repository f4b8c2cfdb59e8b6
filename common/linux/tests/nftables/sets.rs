//! Elements in sets, and rules that many add to the same chain.

use cni_core::family::Family;
use cni_core::names::IfName;
use cni_netfilter::nftables::{
    BaseChainType, ChainContent, Direction, Equality, Expression, Generation, Hook, NftChain, NftChange, NftName,
    NftRemoval, NftRule, NftRuleset, NftTable, Nftables, PacketEnd, Set, SetElements, SetId, TableFamily, TableId,
    Transaction, TransactionError, Verdict, WantedChain, ensure, missing, missing_elements, remove,
};

use super::host::{alone, nft, nftables, ruleset};

fn table() -> TableId {
    TableId::fixed(TableFamily::Inet, "cni_sets")
}

fn set(family: Family) -> SetId {
    let name = match family {
        Family::V4 => "hosts_v4",
        Family::V6 => "hosts_v6",
    };
    SetId { table: table(), name: NftName::fixed(name) }
}

fn hosts(family: Family, last: &[u8]) -> SetElements {
    let address = |last: &u8| match family {
        Family::V4 => [10, 0, 0, *last].into(),
        Family::V6 => [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(*last)].into(),
    };
    SetElements { set: set(family), addresses: last.iter().map(address).collect() }
}

/// A base chain that asks a set of each family, a rule for a link among those for other links, and elements.
fn want(link: u8, last: &[u8]) -> NftRuleset {
    let asks = |family| {
        let known = Expression::InSet(PacketEnd::Source, family, set(family).name);
        NftRule::new(table().chain("asks"), vec![known, Expression::Verdict(Verdict::Accept)])
    };
    let name = IfName::parse(&format!("br{link}")).expect("a name");
    let by_link = Expression::Interface(Direction::In, Equality::Equal, name);
    let among = vec![NftRule::new(table().chain("links"), vec![by_link, Expression::Verdict(Verdict::Return)])];
    let sets = Family::ALL.map(|family| Set { id: set(family), family });
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: None }],
        sets: sets.to_vec(),
        chains: vec![
            WantedChain { chain: NftChain::regular(table().chain("links")), content: ChainContent::AtLeast(among) },
            WantedChain {
                chain: NftChain::base(table().chain("asks"), BaseChainType::Filter, Hook::Forward, 0),
                content: ChainContent::Fixed(Family::ALL.map(asks).to_vec()),
            },
        ],
        elements: Family::ALL.map(|family| hosts(family, last)).to_vec(),
        ..NftRuleset::default()
    }
}

fn unwanted(last: &[u8]) -> NftRemoval {
    NftRemoval { elements: Family::ALL.map(|family| hosts(family, last)).to_vec(), ..NftRemoval::default() }
}

#[test]
fn an_element_is_put_in_and_taken_out_alone() {
    alone(|| {
        let mut nftables = nftables();
        assert_eq!(nftables.held(&hosts(Family::V4, &[1])).expect("asked"), None);
        ensure(&mut nftables, &want(1, &[1])).expect("ensured");
        let one = ruleset();
        let undo = ensure(&mut nftables, &want(1, &[1, 2])).expect("ensured").expect("something new");
        assert_eq!(undo.added, Some(unwanted(&[2])));
        nft(&["get", "element", "inet", "cni_sets", "hosts_v6", "{ fd00::2 }"], "");
        let held = nftables.held(&hosts(Family::V4, &[3, 2, 1])).expect("asked");
        assert_eq!(held, Some(hosts(Family::V4, &[2, 1]).addresses));
        assert_eq!(missing_elements(&mut nftables, &want(1, &[3])).expect("read"), Some(hosts(Family::V4, &[3])));
        remove(&mut nftables, &unwanted(&[2, 3])).expect("removed");
        remove(&mut nftables, &unwanted(&[2, 3])).expect("gone");
        assert_eq!(ruleset(), one);
        assert_eq!(missing(&mut nftables, &want(1, &[1])).expect("read"), None);
        assert_eq!(missing_elements(&mut nftables, &want(1, &[1])).expect("read"), None);
    });
}

#[test]
fn what_an_administrator_emptied_or_deleted_is_mended() {
    alone(|| {
        let mut nftables = nftables();
        ensure(&mut nftables, &want(1, &[1])).expect("ensured");
        let right = ruleset();
        for command in
            ["flush set inet cni_sets hosts_v4", "flush chain inet cni_sets asks", "delete table inet cni_sets"]
        {
            nft(&[command], "");
            assert_ne!(ruleset(), right);
            ensure(&mut nftables, &want(1, &[1])).expect("ensured");
            assert_eq!(ruleset(), right, "{command}");
        }
        nft(&["-f", "-"], "flush chain inet cni_sets asks\ndelete set inet cni_sets hosts_v4\n");
        remove(&mut nftables, &unwanted(&[1])).expect("nothing is left of it");
        ensure(&mut nftables, &want(1, &[1])).expect("ensured");
        assert_eq!(ruleset().matches("elements = {").count(), 2);
    });
}

#[test]
fn a_transaction_that_is_bound_to_a_state_is_refused_after_any_change() {
    alone(|| {
        let mut nftables = nftables();
        let since = Some(nftables.generation().expect("told"));
        let add =
            |name| vec![NftChange::AddTable(NftTable { id: TableId::fixed(TableFamily::Ip, name), comment: None })];
        nftables.commit(&Transaction { ops: add("first"), since }).expect("nothing has changed");
        let refused = nftables.commit(&Transaction { ops: add("second"), since });
        assert!(matches!(refused, Err(TransactionError::Refused(_))), "{refused:?}");
        let Some(Generation(before)) = since else { panic!("told") };
        assert_ne!(nftables.generation().expect("told"), Generation(before));
        assert_eq!(ruleset(), "table ip first {\n}\n");
    });
}

#[test]
fn many_at_once_add_each_rule_once_and_lose_no_element() {
    alone(|| {
        let numbers: Vec<u8> = (1..=24).collect();
        std::thread::scope(|scope| {
            for &number in &numbers {
                scope.spawn(move || ensure(&mut nftables(), &want(number % 3, &[number])).expect("ensured"));
            }
        });
        let text = ruleset();
        assert_eq!(text.matches("iifname").count(), 3, "{text}");
        for number in numbers {
            assert_eq!(missing_elements(&mut nftables(), &want(0, &[number])).expect("read"), None, "{text}");
        }
    });
}
