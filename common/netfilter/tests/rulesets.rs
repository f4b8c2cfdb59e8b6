//! One set of rules above both engines: the choice between them, and what an absent one means.

use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::RulePosition;
use cni_netfilter::iptables::{Iptables, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable};
use cni_netfilter::nftables::{
    ChainContent, Expression, NftChain, NftRemoval, NftRule, NftRuleset, NftTable, TableFamily, TableId, Verdict,
    WantedChain,
};
use cni_netfilter::{Backend, RuleRemoval, Ruleset, unless_absent};
use cni_testkit::{FakeNetfilter, FakeNftables};

fn by_iptables(family: Family) -> Ruleset {
    let rules = vec![IptablesRule::parse("-A FORWARD -i cni0 -j ACCEPT").expect("a rule")];
    let (shared_chains, shared) = (Vec::new(), Vec::new());
    IptablesRuleset {
        family,
        table: IptablesTable::Filter,
        shared_chains,
        shared,
        chains: Vec::new(),
        rules,
        position: RulePosition::Back,
    }
    .into()
}

fn by_nftables() -> Ruleset {
    let table = TableId::fixed(TableFamily::Inet, "t");
    let rule = NftRule::new(table.chain("c"), vec![Expression::Verdict(Verdict::Accept)]);
    let chain = WantedChain { chain: NftChain::regular(table.chain("c")), content: ChainContent::Own(vec![rule]) };
    NftRuleset { tables: vec![NftTable { id: table, comment: None }], chains: vec![chain], ..NftRuleset::default() }
        .into()
}

fn from_iptables() -> IptablesRemoval {
    let rules = vec![IptablesRule::parse("-A FORWARD -i cni0 -j ACCEPT").expect("a rule")];
    IptablesRemoval { family: Family::V4, table: IptablesTable::Filter, chains: Vec::new(), rules }
}

fn from_nftables() -> NftRemoval {
    NftRemoval { chains: vec![TableId::fixed(TableFamily::Inet, "t").chain("c")], ..NftRemoval::default() }
}

fn without(families: &[Family]) -> FakeNetfilter {
    let mut netfilter = FakeNetfilter::default();
    netfilter.iptables.uninstall(families);
    netfilter
}

fn without_both() -> FakeNetfilter {
    FakeNetfilter { nftables: FakeNftables::unsupported(), ..without(&Family::ALL) }
}

#[test]
fn iptables_is_chosen_where_it_can_hold_rules_of_every_family_in_use() {
    let both = &Family::ALL[..];
    for (lacking, in_use, chosen) in [
        (&[][..], both, Backend::Iptables),
        (&[Family::V6], &[Family::V4], Backend::Iptables),
        (&[Family::V6], both, Backend::Nftables),
        (&[Family::V6], &[Family::V6], Backend::Nftables),
        (both, &[Family::V4], Backend::Nftables),
        (both, &[], Backend::Iptables),
    ] {
        let mut netfilter = without(lacking);
        let mut tableless = FakeNetfilter::default();
        tableless.iptables.lack(lacking.iter().map(|family| (*family, IptablesTable::Nat)).collect::<Vec<_>>());
        for netfilter in [&mut netfilter, &mut tableless] {
            let found = Backend::choose(netfilter, IptablesTable::Nat, in_use.iter().copied());
            assert_eq!(found, chosen, "{lacking:?} {in_use:?}");
            assert_eq!(Backend::choose(netfilter, IptablesTable::Filter, []), Backend::Iptables);
            assert_eq!((netfilter.iptables.lists(), netfilter.iptables.commits()), (0, 0));
        }
    }
    assert_eq!(
        Backend::choose(&mut without_both(), IptablesTable::Nat, Family::ALL),
        Backend::Iptables,
        "whose error tells what is missing"
    );
}

#[test]
fn what_cannot_be_used_is_not_available() {
    let mut whole = FakeNetfilter::default();
    for backend in [Backend::Iptables, Backend::Nftables] {
        backend.verify_available(&mut whole, Family::V4, IptablesTable::Nat).expect("available");
    }
    assert_eq!((whole.iptables.lists(), whole.iptables.commits()), (1, 0));
    for (backend, message, cause) in [
        (Backend::Iptables, "table nat of iptables is not available", "failed to locate iptables-restore"),
        (Backend::Nftables, "nf_tables is not available", "nf_tables is not supported by this kernel"),
    ] {
        let error = backend.verify_available(&mut without_both(), Family::V4, IptablesTable::Nat).expect_err("absent");
        assert_eq!((error.to_string().as_str(), error.code()), (message, Code::NotAvailable));
        assert!(error.details().contains(cause), "{}", error.details());
    }
}

#[test]
fn rules_come_go_and_are_missed_whichever_engine_keeps_them() {
    let mut netfilter = FakeNetfilter::default();
    for (ruleset, missing) in [
        (by_iptables(Family::V6), "ip6tables -t filter -A FORWARD -i cni0 -j ACCEPT"),
        (by_nftables(), "nft inet t c accept"),
    ] {
        let reported = ruleset.missing(&mut netfilter).expect("looked").map(|missing| missing.to_string());
        assert_eq!(reported.as_deref(), Some(missing));
        let undo = ruleset.ensure(&mut netfilter).expect("made").expect("something was added");
        assert_eq!(ruleset.missing(&mut netfilter).expect("looked"), None);
        assert_eq!(ruleset.ensure(&mut netfilter).expect("there"), None);
        undo.carry_out(&mut netfilter).expect("removed");
        undo.carry_out(&mut netfilter).expect("gone");
        assert!(ruleset.missing(&mut netfilter).expect("looked").is_some());
    }
}

#[test]
fn an_absent_engine_holds_nothing_of_ours_and_takes_nothing() {
    for (possible, message) in [
        (RuleRemoval::from(from_iptables()), "failed to locate iptables-restore"),
        (RuleRemoval::from(from_nftables()), "nf_tables is not supported by this kernel"),
    ] {
        possible.remove(&mut without_both()).expect("nothing to remove");
        let error = possible.known().remove(&mut without_both()).expect_err("there are rules, and no way to them");
        assert!(error.to_string().contains(message), "{error}");
    }
    let absent =
        unless_absent(without_both().iptables.list(Family::V4, IptablesTable::Nat, &ChainName::fixed("POSTROUTING")));
    assert_eq!(absent.expect("nothing to list"), None);
    for ruleset in [by_iptables(Family::V4), by_nftables()] {
        ruleset.ensure(&mut without_both()).expect_err("nowhere to be put");
        ruleset.missing(&mut without_both()).expect_err("nowhere to be looked for");
    }
}

#[test]
fn any_other_failure_is_no_absence() {
    let mut netfilter = FakeNetfilter::default();
    let undo = by_iptables(Family::V4).ensure(&mut netfilter).expect("made").expect("something was added");
    netfilter.iptables.fail_commit(2);
    let error = undo.carry_out(&mut netfilter).expect_err("failed");
    assert_eq!((error.to_string().as_str(), error.code()), ("fake failed, as it was told to", Code::Program));
}
