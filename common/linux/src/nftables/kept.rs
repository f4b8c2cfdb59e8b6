//! Keeps whole tables for as long as nothing changes, for a tool that asks about many containers.
//!
//! A question about the rules of one container reads long chains, so questions about all of them take a time that grows
//! with the square of their number. The kernel numbers the states of nf_tables. What was read of the current state
//! answers all questions until the number changes.
//!
//! Where others change something all the time, every question would be a listing of everything: with 1000 containers,
//! minutes in place of a second. So tables are kept only as long as that saves work.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_kernel::nftables::xt::{NumberedRule, WantedBytes, read_rule};
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::nftables::{Generation, TableId};

/// A listing that answers fewer questions than this is wasted: without it each of them takes a few system calls.
const FEW_ANSWERS: usize = 64;

/// So many wasted listings in a row are enough.
const MOST_WASTED: usize = 4;

/// The chains of a table.
pub(super) type KeptTable = HashMap<String, KeptChain>;

/// The rules of a chain.
#[derive(Debug, Default)]
pub(crate) struct KeptChain {
    /// In their order.
    messages: Vec<Box<[u8]>>,
    /// Made when iptables' rules are looked for the first time.
    index: OnceCell<RuleIndex>,
}

/// Where the rules of a chain of iptables are.
#[derive(Debug, Default)]
struct RuleIndex {
    hasher: RandomState,
    /// By their hashes: decoded rules take several times as much memory as their messages.
    places: HashMap<u64, Vec<usize>>,
    /// Those of unknown kinds.
    undecoded: Vec<usize>,
}

impl KeptChain {
    /// Adds the rule that comes next.
    pub(super) fn push(&mut self, message: &[u8]) {
        self.messages.push(message.into());
    }

    /// The messages of the rules, in their order.
    pub(super) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(AsRef::as_ref)
    }

    /// The copies of some rules of iptables with their positions; `None` if a rule of an unknown kind may be one of them.
    pub(crate) fn copies(
        &self,
        family: Family,
        name: &ChainName,
        rules: &[&IptablesRule],
    ) -> Option<Vec<(usize, NumberedRule)>> {
        let index = self.index.get_or_init(|| self.indexed(family, name));
        if !index.undecoded.is_empty() {
            let wanted = WantedBytes::of(rules);
            if index.undecoded.iter().any(|place| wanted.may_be_in(&self.messages[*place])) {
                return None;
            }
        }
        let mut found = Vec::new();
        for wanted in rules.iter().map(|rule| rule.canonical()) {
            let places = index.places.get(&index.hasher.hash_one(&wanted)).into_iter().flatten();
            let read = places.filter_map(|place| Some((*place, read_rule(family, name, &self.messages[*place])?)));
            found.extend(read.filter(|(_, (_, rule))| *rule == wanted));
        }
        found.sort_by_key(|(place, _)| *place);
        found.dedup_by_key(|(place, _)| *place);
        Some(found)
    }

    fn indexed(&self, family: Family, name: &ChainName) -> RuleIndex {
        let mut index = RuleIndex::default();
        for (place, message) in self.messages().enumerate() {
            match read_rule(family, name, message) {
                Some((_, rule)) => index.places.entry(index.hasher.hash_one(&rule)).or_default().push(place),
                None => index.undecoded.push(place),
            }
        }
        index
    }
}

/// What is kept of the tables of a network namespace.
#[derive(Debug, Default)]
pub(super) struct KeptTables {
    /// The state that the tables were in.
    state: Option<Generation>,
    /// `None` for one that changed while it was read.
    pub(super) tables: HashMap<TableId, Option<KeptTable>>,
    /// How many questions were asked about these tables.
    answers: usize,
    /// How many listings in a row were wasted.
    wasted: usize,
}

impl KeptTables {
    /// Forgets what was read of another state. Returns whether keeping tables still saves work.
    pub(super) fn begin(&mut self, state: Generation) -> bool {
        if self.state != Some(state) {
            let wasted = match (self.tables.is_empty(), self.answers < FEW_ANSWERS) {
                (true, _) => self.wasted,
                (false, true) => self.wasted + 1,
                (false, false) => 0,
            };
            *self = Self { state: Some(state), wasted, ..Self::default() };
        }
        self.answers += 1;
        self.wasted < MOST_WASTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_kernel::nftables::xt::rule_bytes;
    use cni_netfilter::nftables::TableFamily;

    #[test]
    fn copies_are_found_in_their_order_unless_a_rule_of_an_unknown_kind_may_be_one() {
        let rule = |port: u16| IptablesRule::parse(&format!("-A C -d 10.0.0.{port}/32 -j D-{port}")).expect("a rule");
        let mut chain = KeptChain::default();
        for port in [1, 2, 3, 2] {
            chain.push(&rule_bytes(Family::V4, u64::from(port), &rule(port)).expect("written"));
        }
        let name = ChainName::fixed("C");
        let found = chain.copies(Family::V4, &name, &[&rule(2), &rule(9), &rule(1), &rule(2)]).expect("all are known");
        assert_eq!(found, [(0, (1, rule(1))), (1, (2, rule(2))), (3, (2, rule(2)))]);
        let mut unknown = KeptChain::default();
        unknown.push(b"xxxx\x0a\0\0\x02");
        assert_eq!(unknown.copies(Family::V4, &name, &[&rule(2)]), None);
        assert_eq!(unknown.copies(Family::V4, &name, &[&rule(1)]), Some(Vec::new()));
    }

    #[test]
    fn tables_are_not_kept_where_they_change_before_they_have_answered_much() {
        let mut kept = KeptTables::default();
        let mut list = |state: usize, answers: usize| {
            let state = Generation(u32::try_from(state).expect("small"));
            let table = TableId::fixed(TableFamily::Ip, "nat");
            (0..answers).fold(true, |_, _| {
                let is_worth_it = kept.begin(state);
                kept.tables.insert(table.clone(), None);
                is_worth_it
            })
        };
        assert!((0..MOST_WASTED).all(|state| list(state, FEW_ANSWERS - 1)), "the last one may still answer more");
        assert!(list(MOST_WASTED - 1, 1), "which it does");
        assert!((0..MOST_WASTED).all(|state| list(100 + state, 1)));
        assert!(!list(200, 1));
    }
}
