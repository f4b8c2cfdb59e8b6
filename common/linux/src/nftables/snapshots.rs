//! Keeps whole tables for as long as nothing changes, for a tool that asks about many containers.
//!
//! A question about the rules of one container reads long chains, so questions about all of them take a time that grows
//! with the square of their number. The kernel numbers the states of nf_tables. What was read of the current state
//! answers all questions until the number changes.
//!
//! Where others change something all the time, every question would be a listing of everything: with 1000 containers,
//! minutes in place of a second. So tables are kept only as long as that saves work.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;

use cni_kernel::nftables::prefilter::RulePrefilter;
use cni_kernel::nftables::xt::NumberedRule;
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::nftables::{ChainId, Generation, TableId};

/// A chain with more rules of others than this is long.
pub(super) const LONG: usize = 32;

/// A listing that answers fewer questions than this is wasted: without it each of them takes a few system calls.
const FEW_ANSWERS: usize = 64;

/// So many wasted listings in a row are enough.
const MOST_WASTED: usize = 4;

/// What is kept of the tables of a network namespace.
#[derive(Debug, Default)]
pub(crate) struct TableSnapshots {
    state: Option<Generation>,
    is_current: bool,
    tables: HashMap<TableId, TableSnapshot>,
    /// How many questions these tables have answered.
    answers: usize,
    /// How many listings in a row were wasted.
    wasted: usize,
}

impl TableSnapshots {
    /// The state that the tables were in, unless they may have changed.
    pub(crate) fn state(&self) -> Option<Generation> {
        self.state.filter(|_| self.is_current)
    }

    /// The state that the tables are in now. What was read of another one is forgotten.
    pub(crate) fn update(&mut self, now: Generation) {
        if self.state != Some(now) {
            let wasted = match (self.tables.is_empty(), self.answers < FEW_ANSWERS) {
                (true, _) => self.wasted,
                (false, true) => self.wasted + 1,
                (false, false) => 0,
            };
            *self = Self { state: Some(now), wasted, ..Self::default() };
        }
        self.is_current = true;
    }

    /// A listing was of no use: something changed while it was read.
    pub(crate) const fn waste(&mut self) {
        self.wasted += 1;
    }

    /// Whether keeping tables saves work.
    pub(crate) const fn is_worth_it(&self) -> bool {
        self.wasted < MOST_WASTED
    }

    /// From now on the tables may have changed.
    pub(crate) const fn expire(&mut self) {
        self.is_current = false;
    }

    pub(crate) fn keep(&mut self, table: TableId, snapshot: TableSnapshot) {
        self.tables.insert(table, snapshot);
    }

    pub(crate) fn has(&self, table: &TableId) -> bool {
        self.tables.contains_key(table)
    }

    /// A kept table, to answer a question.
    pub(crate) fn table(&mut self, table: &TableId) -> Option<&mut TableSnapshot> {
        self.tables.get_mut(table).inspect(|_| self.answers += 1)
    }
}

/// The chains of a table.
#[derive(Debug, Default)]
pub(crate) struct TableSnapshot(HashMap<String, ChainSnapshot>);

#[derive(Debug, Default)]
struct ChainSnapshot {
    /// The messages of the rules, in their order.
    rules: Vec<Box<[u8]>>,
    index: Option<Rc<RuleIndex>>,
}

impl TableSnapshot {
    pub(crate) fn add_chain(&mut self, chain: String) {
        self.0.entry(chain).or_default();
    }

    /// Adds the rule that comes next in its chain.
    pub(crate) fn add_rule(&mut self, chain: String, message: Box<[u8]>) {
        self.0.entry(chain).or_default().rules.push(message);
    }

    pub(crate) fn has_chain(&self, chain: &ChainId) -> bool {
        self.0.contains_key(chain.name.as_str())
    }

    /// The messages of the rules of a chain, in their order.
    pub(crate) fn rules(&self, chain: &ChainId) -> impl Iterator<Item = &[u8]> {
        self.0.get(chain.name.as_str()).into_iter().flat_map(|chain| &chain.rules).map(Box::as_ref)
    }

    /// The index of a chain; `None` if it does not exist.
    pub(crate) fn index(
        &mut self,
        chain: &ChainId,
        decode: impl Fn(&[u8]) -> Option<NumberedRule>,
    ) -> Option<Rc<RuleIndex>> {
        let chain = self.0.get_mut(chain.name.as_str())?;
        let read = || Rc::new(RuleIndex::of(chain.rules.iter().map(Box::as_ref), decode));
        Some(Rc::clone(chain.index.get_or_insert_with(read)))
    }
}

/// The decoded rules of a chain, by their digests: a host with a thousand containers has tens of thousands of rules.
#[derive(Debug, Default)]
pub(crate) struct RuleIndex {
    length: usize,
    digester: RuleDigester,
    /// Each copy of a rule, in the order of the digests, and then of the positions.
    copies: Vec<RuleCopy>,
    /// The messages of rules of unknown kinds.
    undecoded: Vec<Box<[u8]>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RuleCopy {
    digest: u128,
    /// Its position in the chain, counted from 0.
    place: usize,
    handle: u64,
}

/// Gives equal rules equal digests, and others different ones: 128 bits with random keys, so that nobody can make two
/// rules of one digest.
#[derive(Debug, Default)]
struct RuleDigester([RandomState; 2]);

impl RuleDigester {
    fn digest(&self, rule: &IptablesRule) -> u128 {
        let [high, low] = &self.0;
        u128::from(high.hash_one(rule)) << 64 | u128::from(low.hash_one(rule))
    }
}

impl RuleIndex {
    fn of<'a>(messages: impl Iterator<Item = &'a [u8]>, decode: impl Fn(&[u8]) -> Option<NumberedRule>) -> Self {
        let mut index = Self::default();
        for (place, message) in messages.enumerate() {
            index.length = place + 1;
            match decode(message) {
                Some((handle, rule)) => {
                    let digest = index.digester.digest(&rule);
                    index.copies.push(RuleCopy { digest, place, handle });
                }
                None => index.undecoded.push(message.into()),
            }
        }
        index.copies.sort_unstable();
        index
    }

    /// The copies of a rule in its canonical form.
    fn copies_of(&self, rule: &IptablesRule) -> &[RuleCopy] {
        let digest = self.digester.digest(rule);
        let start = self.copies.partition_point(|copy| copy.digest < digest);
        let end = self.copies.partition_point(|copy| copy.digest <= digest);
        self.copies.get(start..end).unwrap_or_default()
    }

    /// The number of rules.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Whether a rule exists; `None` if it may be there in other words, or be one of an unknown kind.
    pub(crate) fn holds(&self, rule: &IptablesRule) -> Option<bool> {
        let is_certain = || self.undecoded.is_empty() && !rule.has_words();
        if self.copies_of(&rule.canonical()).is_empty() { is_certain().then_some(false) } else { Some(true) }
    }

    /// The copies of some rules with their positions; `None` if a rule of an unknown kind may be one of them.
    pub(crate) fn copies(&self, rules: &[&IptablesRule]) -> Option<Vec<(usize, NumberedRule)>> {
        let may_be_one = |prefilter: RulePrefilter| self.undecoded.iter().any(|message| prefilter.passes(message));
        if !self.undecoded.is_empty() && may_be_one(RulePrefilter::of_rules(rules)) {
            return None;
        }
        let mut found = Vec::new();
        for rule in rules.iter().map(|rule| rule.canonical()) {
            found.extend(self.copies_of(&rule).iter().map(|copy| (copy.place, (copy.handle, rule.clone()))));
        }
        found.sort_by_key(|(place, _)| *place);
        found.dedup_by_key(|(place, _)| *place);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::names::ChainName;
    use cni_netfilter::iptables::Target;
    use cni_netfilter::nftables::TableFamily;

    fn chain() -> ChainId {
        TableId::fixed(TableFamily::Ip, "nat").chain("C")
    }

    fn rule(number: usize) -> IptablesRule {
        let to = ChainName::parse(&format!("D-{number}")).expect("a name");
        IptablesRule::new(ChainName::fixed("C"), Vec::new(), Target::Jump(to))
    }

    /// A message is the name of the chain that its rule jumps to.
    fn decode(message: &[u8]) -> Option<NumberedRule> {
        let number = std::str::from_utf8(message).ok()?.strip_prefix("D-")?.parse().ok()?;
        Some((100 + number as u64, rule(number)))
    }

    fn snapshot(length: usize) -> TableSnapshot {
        let mut snapshot = TableSnapshot::default();
        snapshot.add_chain("C".to_owned());
        (0..length).for_each(|number| snapshot.add_rule("C".to_owned(), format!("D-{number}").into_bytes().into()));
        snapshot
    }

    #[test]
    fn a_table_is_kept_until_its_state_changes() {
        let table = chain().table;
        let mut snapshots = TableSnapshots::default();
        assert_eq!(snapshots.state(), None);
        snapshots.update(Generation(7));
        snapshots.keep(table.clone(), snapshot(1));
        snapshots.expire();
        assert_eq!(snapshots.state(), None);
        snapshots.update(Generation(7));
        assert_eq!((snapshots.state(), snapshots.table(&table).is_some()), (Some(Generation(7)), true));
        snapshots.update(Generation(8));
        assert_eq!((snapshots.state(), snapshots.table(&table).is_some()), (Some(Generation(8)), false));
    }

    #[test]
    fn tables_are_not_kept_where_they_change_before_they_have_answered_much() {
        let table = chain().table;
        let mut snapshots = TableSnapshots::default();
        let mut list = |state: usize, answers: usize| {
            snapshots.update(Generation(u32::try_from(state).expect("small")));
            snapshots.keep(table.clone(), snapshot(1));
            (0..answers).for_each(|_| assert!(snapshots.table(&table).is_some()));
            snapshots.is_worth_it()
        };
        assert!((0..MOST_WASTED).all(|state| list(state, FEW_ANSWERS - 1)), "the last one may still answer more");
        assert!(list(MOST_WASTED - 1, 1), "which it does");
        assert!((0..MOST_WASTED).all(|state| list(100 + state, 0)));
        assert!(!list(200, 0));
        let mut interrupted = TableSnapshots::default();
        (0..MOST_WASTED).for_each(|_| interrupted.waste());
        assert!(!interrupted.is_worth_it());
    }

    #[test]
    fn all_copies_of_a_rule_are_found_in_their_order() {
        let mut snapshot = snapshot(LONG);
        snapshot.add_rule("C".to_owned(), (*b"D-3").into());
        let index = snapshot.index(&chain(), decode).expect("a chain");
        let found = index.copies(&[&rule(5), &rule(3), &rule(99), &rule(3)]).expect("all are decoded");
        assert_eq!(found, [(3, (103, rule(3))), (5, (105, rule(5))), (LONG, (103, rule(3)))]);
        assert_eq!(index.length(), LONG + 1);
    }

    #[test]
    fn a_rule_of_an_unknown_kind_hides_those_that_it_may_be() {
        let mut snapshot = snapshot(LONG);
        snapshot.add_rule("C".to_owned(), (*b"xxx.D-3\0").into());
        let index = snapshot.index(&chain(), decode).expect("a chain");
        assert_eq!((index.copies(&[&rule(3)]), index.copies(&[&rule(5)]).map(|found| found.len())), (None, Some(1)));
    }

    #[test]
    fn an_index_tells_what_exists_unless_a_rule_of_an_unknown_kind_may_be_it() {
        let mut known = snapshot(2);
        let index = known.index(&chain(), decode).expect("a chain");
        assert_eq!((index.holds(&rule(1)), index.holds(&rule(3))), (Some(true), Some(false)));
        let in_words = IptablesRule { target: Target::Raw(vec!["-j".to_owned(), "ODD".to_owned()]), ..rule(3) };
        assert_eq!(index.holds(&in_words), None, "iptables may spell it otherwise");
        let mut unknown = snapshot(2);
        unknown.add_rule("C".to_owned(), (*b"xxx").into());
        let index = unknown.index(&chain(), decode).expect("a chain");
        assert_eq!((index.holds(&rule(1)), index.holds(&rule(3))), (Some(true), None));
    }

    #[test]
    fn an_empty_chain_is_no_missing_one() {
        let (snapshot, other) = (snapshot(0), TableId::fixed(TableFamily::Ip, "nat").chain("E"));
        assert_eq!((snapshot.has_chain(&chain()), snapshot.has_chain(&other)), (true, false));
        assert_eq!(snapshot.rules(&chain()).count(), 0);
    }
}
