//! Which batches change iptables, for each state of the host. `iptables.txt` has both.

use std::collections::VecDeque;

use cni_core::error::Code;
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{
    Batch, ChainRules, ExistingChain, Iptables, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable,
    JumpRemoval, Match, OwnedChain, OwnedChainRef, RulePlacement, SharedChainsLock, SharedRule, ensure, missing,
    remove, undo,
};
use cni_netfilter::{NetfilterError, NetfilterErrorKind, RulePosition};

/// The rule that leads to the container's chain.
const ENTRY: &str = "-A D -s 10.0.0.1/32 -j O";

/// A table that does not change, with answers to batches: `r` for a refusal, `f` for a failure, `u` for a lost answer. All others succeed.
struct GivenTable {
    lines: Vec<String>,
    answers: VecDeque<char>,
    batches: Vec<String>,
    lists: usize,
    locks: usize,
}

impl GivenTable {
    fn new(lines: &str, answers: &str) -> Self {
        let lines = lines.split("; ").map(str::to_owned).collect();
        Self { lines, answers: answers.chars().collect(), batches: vec![], lists: 0, locks: 0 }
    }
}

impl Iptables for GivenTable {
    fn list(&mut self, _: Family, _: IptablesTable, chain: &ChainName) -> Result<ChainRules, NetfilterError> {
        self.lists += 1;
        let rules = self.lines.iter().filter_map(|line| IptablesRule::parse(line));
        let rules: Vec<IptablesRule> = rules.filter(|rule| rule.chain == *chain).map(|rule| rule.canonical()).collect();
        let is_there = ["POSTROUTING", "PREROUTING", "OUTPUT", "FORWARD"].contains(&chain.as_str())
            || self.lines.contains(&format!("-N {chain}"));
        Ok(is_there.then_some(rules))
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), NetfilterError> {
        let text = batch.text().expect("text");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('*') && *line != "COMMIT").collect();
        self.batches.push(lines.join("; "));
        match self.answers.pop_front() {
            Some('r') => Err(NetfilterError::refused(batch.family, batch.table, "given", "")),
            Some('f') => Err(NetfilterError::program(NetfilterErrorKind::Failed, "given", "told to", "")),
            Some('u') => {
                let text = "the answer was lost".to_owned();
                Err(NetfilterError::new(NetfilterErrorKind::Unanswered, Code::Kernel, text, ""))
            }
            _ => Ok(()),
        }
    }

    fn absence(&mut self, _: Family, _: IptablesTable) -> Option<NetfilterError> {
        None
    }

    fn lock(&mut self) -> Result<SharedChainsLock, NetfilterError> {
        self.locks += 1;
        Ok(SharedChainsLock { has_waited: false, held: Box::new(()) })
    }
}

fn chain(name: &str) -> ChainName {
    ChainName::parse(name).expect(name)
}

fn rules(lines: &str) -> Vec<IptablesRule> {
    lines.split("; ").filter(|line| !line.is_empty()).map(|line| IptablesRule::parse(line).expect(line)).collect()
}

fn want(rule_lines: &str) -> IptablesRuleset {
    IptablesRuleset {
        family: Family::V4,
        table: IptablesTable::Nat,
        shared_chains: Vec::new(),
        shared: Vec::new(),
        chains: Vec::new(),
        rules: rules(rule_lines),
        position: RulePosition::Back,
    }
}

fn own(name: &str, lines: &str, existing: ExistingChain) -> OwnedChain {
    OwnedChain { name: chain(name), rules: rules(lines), existing }
}

fn shared(place: RulePlacement, line: &str) -> SharedRule {
    SharedRule { rule: rules(line).remove(0), place }
}

/// Two shared chains with three rules, a chain of the container, and a rule that leads to it.
fn mapped() -> IptablesRuleset {
    IptablesRuleset {
        shared_chains: vec![chain("D"), chain("M")],
        shared: vec![
            shared(RulePlacement::Last, "-A M -j RETURN"),
            shared(RulePlacement::First, "-A POSTROUTING -j MASQUERADE"),
            shared(RulePlacement::Last, "-A PREROUTING -j D"),
        ],
        chains: vec![own("O", "-A O -j ACCEPT", ExistingChain::Replace)],
        ..want(ENTRY)
    }
}

/// Rules of two addresses in a chain that several interfaces of a container share.
fn merged() -> IptablesRuleset {
    let lines = "-A O -d 10.1.3.0/24 -j ACCEPT; -A O -j MASQUERADE";
    let chains = vec![own("O", lines, ExistingChain::Merge)];
    IptablesRuleset { chains, ..want("-A POSTROUTING -s 10.1.3.2/32 -j O") }
}

/// A rule that lets pass, and, with a policy, the one that must be asked before it.
fn ordered(with_policy: bool) -> IptablesRuleset {
    let (upper, lower) = ("-A FORWARD -j S", "-A FORWARD -j F");
    let place = |place: fn(IptablesRule) -> RulePlacement, other| place(rules(other).remove(0));
    let mut want = IptablesRuleset { shared: vec![shared(place(RulePlacement::Below, upper), lower)], ..want("") };
    if with_policy {
        want.shared.push(shared(place(RulePlacement::Above, lower), upper));
    }
    want
}

/// Two ports of a container, before the rules that lead to some other chains.
fn ports(ports: [&str; 2], later: &[&str]) -> IptablesRuleset {
    let lines = ports.map(|port| format!("-A D -s 10.0.0.{port}/32 -j O")).join("; ");
    let position = RulePosition::before(later.iter().map(ToString::to_string));
    IptablesRuleset { position, ..IptablesRuleset { chains: mapped().chains, ..want(&lines) } }
}

/// Chains of a container that lead to each other, entered from two places.
fn redirected() -> IptablesRuleset {
    let chains =
        [("I", "-A I -p tcp -m tcp --dport 22 -j RETURN; -A I -p tcp -j R"), ("E", ""), ("R", "-A R -j RETURN")];
    let chains = chains.map(|(name, lines)| own(name, lines, ExistingChain::ReplaceInOrder)).to_vec();
    IptablesRuleset { chains, ..want("-A PREROUTING -j I; -A OUTPUT -p udp -j E; -A OUTPUT -p tcp -j R") }
}

/// Rules of a chain, and two that must have an order in another.
fn looked_for(existing: ExistingChain) -> IptablesRuleset {
    let chains = vec![own("O", "-A O -j ACCEPT; -A O ! -s 10.3.0.0/16 -j RETURN", existing)];
    let shared = ordered(true).shared.split_off(1);
    IptablesRuleset { shared, chains, ..want("-A D -j O") }
}

/// What a line of the page wants.
fn wanted(name: &str) -> IptablesRuleset {
    match name.split(' ').collect::<Vec<_>>()[..] {
        ["mapped"] => mapped(),
        ["alone"] => IptablesRuleset { shared_chains: vec![chain("D"), chain("ALONE")], ..mapped() },
        ["merged"] => merged(),
        ["policed"] => ordered(true),
        ["passed"] => ordered(false),
        ["ports", one, other] => ports([one, other], &[]),
        ["ports", one, other, "before", ref later @ ..] => ports([one, other], later),
        ["redirected"] => redirected(),
        ["accepted"] => want("-A F -d 10.0.0.5/32 -j ACCEPT; -A F -s 10.0.0.5/32 -j ACCEPT"),
        ["typed"] => looked_for(ExistingChain::Replace),
        ["in", "order"] => looked_for(ExistingChain::ReplaceInOrder),
        ["words"] => {
            let (mut want, words) =
                (looked_for(ExistingChain::Replace), ["!", "--source", "10.3.0.0/16"].map(str::to_owned));
            want.chains[0].rules[1].matches = vec![Match::Raw(words.to_vec())];
            want
        }
        _ => panic!("{name}"),
    }
}

fn unwanted(name: &str) -> IptablesRemoval {
    let (jumps, listed) = match name.split(' ').collect::<Vec<_>>()[..] {
        ["accepted"] => (None, "-A F -s 10.0.0.5/32 -j ACCEPT"),
        ["all"] => (Some(JumpRemoval::All), ""),
        ["all", _] => (Some(JumpRemoval::All), ENTRY),
        ["but", address] => (Some(JumpRemoval::AllBut(vec![address.parse().expect("address")])), ""),
        ["but", address, _] => (Some(JumpRemoval::AllBut(vec![address.parse().expect("address")])), ENTRY),
        ["only", _] => (Some(JumpRemoval::Listed), ENTRY),
        _ => panic!("{name}"),
    };
    let chains = jumps.map(|jumps| OwnedChainRef { name: chain("O"), parents: vec![chain("D")], jumps });
    let (family, table) = (Family::V4, IptablesTable::Nat);
    IptablesRemoval { family, table, chains: chains.into_iter().collect(), rules: rules(listed) }
}

#[test]
fn each_state_of_a_host_leads_to_these_batches() {
    for block in include_str!("iptables.txt").split("\n\n").skip(1) {
        let mut lines = block.lines().filter(|line| !line.starts_with('#'));
        let (call, answers) = lines.next().and_then(|line| line.split_once(':')).expect(block);
        let (verb, name) = call.split_once(' ').expect(block);
        let state = lines.next().and_then(|line| line.strip_prefix("on ")).expect(block);
        let mut table = GivenTable::new(state, answers.trim());
        let want = if verb == "remove" { None } else { Some(wanted(name)) };
        let done = match (verb, &want) {
            ("ensure", Some(want)) => ensure(&mut table, want).map(|undo| {
                undo.map(|undo| format!("undo {}", undo.to_string().replace("\n  ", "|").replace('\n', "|")))
            }),
            ("miss", Some(want)) => missing(&mut table, want).map(|rule| rule.map(|rule| format!("missing {rule}"))),
            _ => remove(&mut table, &unwanted(name)).map(|()| None),
        };
        let accepted = table.batches.iter().skip(answers.trim().len());
        let found = accepted.map(|batch| format!("batch {batch}")).chain(match done {
            Ok(done) => done,
            Err(error) => Some(format!("error {error}")),
        });
        assert_eq!(found.collect::<Vec<_>>(), lines.collect::<Vec<_>>(), "{block}");
    }
}

#[test]
fn what_was_made_is_undone_by_one_batch_and_the_usual_state_takes_no_look() {
    let mut table = GivenTable::new("", "");
    let change = ensure(&mut table, &mapped()).expect("ensured").expect("something");
    undo(&mut table, &change).expect("undone");
    assert_eq!((table.lists, table.locks, table.batches.len()), (0, 0, 2));
    assert_eq!(table.batches[1], "-D D -s 10.0.0.1/32 -j O; :O - [0:0]; -X O");
    let mut refusing = GivenTable::new("", "r");
    ensure(&mut refusing, &mapped()).expect("ensured");
    assert_eq!(refusing.locks, 1, "what is shared is mended under the lock");
}
