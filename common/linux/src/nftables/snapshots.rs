//! Keeps whole tables for as long as nothing changes, for a tool that asks about many containers.
//!
//! A question about the rules of one container reads long chains, so questions about all of them take a time that grows
//! with the square of their number. The kernel numbers the states of nf_tables. What was read of the current state
//! answers all questions until the number changes.
//!
//! Of the rules of iptables that can be decoded only digests are kept, which answer whether a rule exists, and where: the messages of
//! 1500 containers take 11 MB. Several threads keep the same tables, and each table is read by the first that needs it.
//!
//! Where others change something all the time, every question would be a listing of everything: with 1000 containers,
//! minutes in place of a second. So tables are kept only as long as that saves work.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_kernel::nftables::listing;
use cni_kernel::nftables::prefilter::RulePrefilter;
use cni_kernel::nftables::xt::{NumberedRule, read_rule};
use cni_netfilter::iptables::{IptablesRule, IptablesTable};
use cni_netfilter::nftables::{ChainId, Generation, NftRule, RuleText, TableFamily, TableId};

/// A chain with more rules of others than this is long.
pub(super) const LONG: usize = 32;

/// A listing that answers fewer questions than this is wasted: without it each of them takes a few system calls.
const FEW_ANSWERS: usize = 64;

/// So many wasted listings in a row are enough.
const MOST_WASTED: usize = 4;

/// The tables that all connections to the nf_tables of a network namespace keep: one of them reads a table for all.
#[derive(Clone, Debug, Default)]
pub struct KeptTables(Arc<Mutex<TableSnapshots>>);

/// A table in one state. Its lock is held while it is read.
type Slot = Arc<Mutex<KeptTable>>;

#[derive(Debug, Default)]
enum KeptTable {
    #[default]
    Unread,
    /// Something changed while it was read, so nobody reads it again in this state.
    Changed,
    Read(Arc<TableSnapshot>),
}

impl KeptTables {
    /// Whether keeping tables saves work.
    pub(super) fn are_worth_it(&self) -> bool {
        locked(&self.0).is_worth_it()
    }

    /// Returns a table in a state; `None` if something changed while it was read, or if a later state is kept by now. Calls `read` if
    /// the table has not been read, which returns `None` if something changes meanwhile.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) fn table<E>(
        &self,
        table: &TableId,
        state: Generation,
        read: impl FnOnce() -> Result<Option<TableSnapshot>, E>,
    ) -> Result<Option<Arc<TableSnapshot>>, E> {
        let Some(slot) = locked(&self.0).slot(table, state) else { return Ok(None) };
        let mut kept = locked(&slot);
        if let KeptTable::Unread = *kept {
            *kept = read()?.map_or(KeptTable::Changed, |table| KeptTable::Read(Arc::new(table)));
        }
        Ok(match &*kept {
            KeptTable::Read(table) => Some(Arc::clone(table)),
            KeptTable::Unread | KeptTable::Changed => None,
        })
    }
}

/// A thread that panics ends the program, so nothing is left half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is kept of the tables of a network namespace.
#[derive(Debug, Default)]
struct TableSnapshots {
    /// The state that the tables were in.
    state: Option<Generation>,
    tables: HashMap<TableId, Slot>,
    /// How many questions were asked about these tables.
    answers: usize,
    /// How many listings in a row were wasted.
    wasted: usize,
}

impl TableSnapshots {
    /// The place of a table, to answer a question about a state; `None` if a later one is known. What was read of an
    /// earlier one is forgotten.
    fn slot(&mut self, table: &TableId, state: Generation) -> Option<Slot> {
        if self.state.is_some_and(|known| is_later(known, state)) {
            return None;
        }
        if self.state != Some(state) {
            let wasted = match (self.tables.is_empty(), self.answers < FEW_ANSWERS) {
                (true, _) => self.wasted,
                (false, true) => self.wasted + 1,
                (false, false) => 0,
            };
            *self = Self { state: Some(state), wasted, ..Self::default() };
        }
        self.answers += 1;
        Some(Arc::clone(self.tables.entry(table.clone()).or_default()))
    }

    /// Whether keeping tables saves work.
    const fn is_worth_it(&self) -> bool {
        self.wasted < MOST_WASTED
    }
}

/// Whether a state comes after another. The kernel counts them, and starts again after the largest number.
const fn is_later(state: Generation, other: Generation) -> bool {
    state.0.wrapping_sub(other.0).cast_signed() > 0
}

/// The chains of a table.
#[derive(Debug)]
pub(crate) struct TableSnapshot {
    /// The family, if it is a table of iptables.
    iptables: Option<Family>,
    chains: HashMap<String, KeptChain>,
}

/// What is kept of the rules of a chain.
#[derive(Debug)]
enum KeptChain {
    /// Of a chain of iptables their digests: a host with a thousand containers has tens of thousands of rules.
    Index { family: Family, name: ChainName, index: RuleIndex },
    /// Of another chain the messages, in the order of the rules, and their texts once one is looked for.
    Messages { messages: Vec<Box<[u8]>>, texts: OnceLock<HashSet<RuleText>> },
}

impl KeptChain {
    fn new(iptables: Option<Family>, name: &str) -> Self {
        match (iptables, ChainName::parse(name)) {
            (Some(family), Ok(name)) => Self::Index { family, name, index: RuleIndex::default() },
            (None, _) | (_, Err(_)) => Self::Messages { messages: Vec::new(), texts: OnceLock::new() },
        }
    }

    fn add(&mut self, message: &[u8]) {
        match self {
            Self::Index { family, name, index } => index.add(message, read_rule(*family, name, message)),
            Self::Messages { messages, texts: _ } => messages.push(message.into()),
        }
    }
}

impl TableSnapshot {
    /// A table without chains.
    pub(super) fn new(table: &TableId) -> Self {
        let is_of_iptables = IptablesTable::ALL.iter().any(|iptables| iptables.as_str() == table.name.as_str());
        let iptables = Family::ALL.into_iter().find(|family| is_of_iptables && table.family == (*family).into());
        Self { iptables, chains: HashMap::new() }
    }

    pub(super) fn add_chain(&mut self, name: String) {
        let chain = KeptChain::new(self.iptables, &name);
        self.chains.entry(name).or_insert(chain);
    }

    /// Adds the rule that comes next in its chain.
    pub(super) fn add_rule(&mut self, message: &[u8]) {
        let Some(name) = listing::read_chain_of_rule(message) else { return };
        match self.chains.get_mut(&*name) {
            Some(chain) => chain.add(message),
            None => {
                self.add_chain(name.clone().into_owned());
                self.chains.get_mut(&*name).into_iter().for_each(|chain| chain.add(message));
            }
        }
    }

    /// Ends the listing.
    #[must_use]
    pub(super) fn finished(mut self) -> Self {
        self.chains.values_mut().for_each(|chain| match chain {
            KeptChain::Index { index, .. } => index.finish(),
            KeptChain::Messages { .. } => {}
        });
        self
    }

    pub(crate) fn has_chain(&self, chain: &ChainId) -> bool {
        self.chains.contains_key(chain.name.as_str())
    }

    /// The messages of the rules of a chain, in their order; `None` if they are not kept.
    pub(super) fn rules(&self, chain: &ChainId) -> Option<&[Box<[u8]>]> {
        match self.chains.get(chain.name.as_str())? {
            KeptChain::Messages { messages, .. } => Some(messages),
            KeptChain::Index { index, .. } => (index.length() == 0).then_some(&[]),
        }
    }

    /// Whether a chain has a rule; `false` if that is not certain.
    pub(crate) fn certainly_has(&self, rule: &NftRule) -> bool {
        let family = rule.chain.table.family;
        match self.chains.get(rule.chain.name.as_str()) {
            Some(KeptChain::Messages { messages, texts }) => {
                let texts = texts.get_or_init(|| messages.iter().filter_map(|rule| text(family, rule)).collect());
                texts.contains(&RuleText::of(rule))
            }
            Some(KeptChain::Index { .. }) | None => false,
        }
    }

    /// The index of a chain of iptables; `None` if it does not exist.
    pub(crate) fn index(&self, chain: &ChainId) -> Option<&RuleIndex> {
        match self.chains.get(chain.name.as_str())? {
            KeptChain::Index { index, .. } => Some(index),
            KeptChain::Messages { .. } => None,
        }
    }
}

/// The text of a rule that can be decoded.
fn text(family: TableFamily, message: &[u8]) -> Option<RuleText> {
    listing::read_rule(family, message)?.text(family)
}

/// The rules of a chain of iptables, by their digests.
#[derive(Debug, Default)]
pub(crate) struct RuleIndex {
    length: usize,
    digester: RuleDigester,
    /// Each copy of a rule; once all are there in the order of the digests, and then of the positions.
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
    /// Adds the rule that comes next; `decoded` is `None` for a rule of an unknown kind.
    fn add(&mut self, message: &[u8], decoded: Option<NumberedRule>) {
        match decoded {
            Some((handle, rule)) => {
                self.copies.push(RuleCopy { digest: self.digester.digest(&rule), place: self.length, handle });
            }
            None => self.undecoded.push(message.into()),
        }
        self.length += 1;
    }

    fn finish(&mut self) {
        self.copies.sort_unstable();
        self.copies.shrink_to_fit();
    }

    /// The copies of a rule in its canonical form.
    fn copies_of(&self, rule: &IptablesRule) -> &[RuleCopy] {
        let digest = self.digester.digest(rule);
        let start = self.copies.partition_point(|copy| copy.digest < digest);
        let end = self.copies.partition_point(|copy| copy.digest <= digest);
        self.copies.get(start..end).unwrap_or_default()
    }

    /// The handle of a rule that has one copy.
    pub(crate) fn only_handle(&self, rule: &IptablesRule) -> Option<u64> {
        if let [copy] = self.copies_of(&rule.canonical()) { Some(copy.handle) } else { None }
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

    fn chain() -> ChainId {
        TableId::fixed(TableFamily::Ip, "nat").chain("C")
    }

    fn rule(number: usize) -> IptablesRule {
        let to = ChainName::parse(&format!("D-{number}")).expect("a name");
        IptablesRule::new(ChainName::fixed("C"), Vec::new(), Target::Jump(to))
    }

    /// The index of a chain with rules that have different targets, and then some more.
    fn index(length: usize, more: &[Option<usize>]) -> RuleIndex {
        let mut index = RuleIndex::default();
        for number in (0..length).map(Some).chain(more.iter().copied()) {
            let decoded = number.map(|number| (100 + number as u64, rule(number)));
            index.add(b"xxx.D-3\0", decoded);
        }
        index.finish();
        index
    }

    /// Asks for a table in a state, and tells whether it is kept, and whether it had to be read.
    fn ask(kept: &KeptTables, state: u32) -> (bool, bool) {
        let mut is_read = false;
        let table = kept.table(&chain().table, Generation(state), || {
            is_read = true;
            Ok::<_, ()>(Some(TableSnapshot::new(&chain().table)))
        });
        (table.expect("no error").is_some(), is_read)
    }

    #[test]
    fn a_table_is_read_once_for_all_until_its_state_changes() {
        let kept = KeptTables::default();
        let other = kept.clone();
        assert_eq!([ask(&kept, 7), ask(&kept, 7), ask(&other, 7)], [(true, true), (true, false), (true, false)]);
        assert_eq!(ask(&other, 8), (true, true));
        assert_eq!(ask(&kept, 7), (false, false), "a later state is kept");
        assert_eq!(ask(&kept, 8), (true, false));
    }

    #[test]
    fn states_are_counted_beyond_the_largest_number() {
        let kept = KeptTables::default();
        assert_eq!(
            [u32::MAX, 1, u32::MAX].map(|state| ask(&kept, state)),
            [(true, true), (true, true), (false, false)]
        );
    }

    #[test]
    fn what_changes_while_it_is_read_is_not_kept() {
        let kept = KeptTables::default();
        for state in 0..=u32::try_from(MOST_WASTED).expect("small") {
            assert!(kept.are_worth_it());
            let table = kept.table(&chain().table, Generation(state), || Ok::<_, ()>(None));
            assert!(table.expect("no error").is_none());
            assert_eq!(ask(&kept, state), (false, false), "one thread has tried it for all");
        }
        assert!(!kept.are_worth_it());
        let failed = kept.table(&chain().table, Generation(70), || Err("no answer"));
        assert_eq!(failed.err(), Some("no answer"));
        assert_eq!(ask(&kept, 70), (true, true));
    }

    #[test]
    fn tables_are_not_kept_where_they_change_before_they_have_answered_much() {
        let kept = KeptTables::default();
        let list = |state: usize, answers: usize| {
            (0..answers).for_each(|_| assert!(ask(&kept, u32::try_from(state).expect("small")).0));
            kept.are_worth_it()
        };
        assert!((0..MOST_WASTED).all(|state| list(state, FEW_ANSWERS - 1)), "the last one may still answer more");
        assert!(list(MOST_WASTED - 1, 1), "which it does");
        assert!((0..MOST_WASTED).all(|state| list(100 + state, 1)));
        assert!(!list(200, 1));
    }

    #[test]
    fn all_copies_of_a_rule_are_found_in_their_order() {
        let index = index(LONG, &[Some(3)]);
        let found = index.copies(&[&rule(5), &rule(3), &rule(99), &rule(3)]).expect("all are decoded");
        assert_eq!(found, [(3, (103, rule(3))), (5, (105, rule(5))), (LONG, (103, rule(3)))]);
        assert_eq!(index.length(), LONG + 1);
    }

    #[test]
    fn a_rule_of_an_unknown_kind_hides_those_that_it_may_be() {
        let index = index(LONG, &[None]);
        assert_eq!((index.copies(&[&rule(3)]), index.copies(&[&rule(5)]).map(|found| found.len())), (None, Some(1)));
    }

    #[test]
    fn an_index_tells_what_exists_unless_a_rule_of_an_unknown_kind_may_be_it() {
        let known = index(2, &[]);
        assert_eq!((known.holds(&rule(1)), known.holds(&rule(3))), (Some(true), Some(false)));
        let in_words = IptablesRule { target: Target::Raw(vec!["-j".to_owned(), "ODD".to_owned()]), ..rule(3) };
        assert_eq!(known.holds(&in_words), None, "iptables may spell it otherwise");
        let unknown = index(2, &[None]);
        assert_eq!((unknown.holds(&rule(1)), unknown.holds(&rule(3))), (Some(true), None));
    }

    #[test]
    fn only_the_rules_of_other_tables_than_those_of_iptables_are_kept_whole() {
        for (table, is_indexed) in [("nat", true), ("filter", true), ("cni", false)] {
            let table = TableId::fixed(TableFamily::Ip, table);
            let mut snapshot = TableSnapshot::new(&table);
            ["C", "!C", "empty"].iter().for_each(|name| snapshot.add_chain((*name).to_owned()));
            if let Some(KeptChain::Index { index, .. }) = snapshot.chains.get_mut("C") {
                index.add(b"", Some((1, rule(1))));
            }
            let shown = |name| {
                let chain = table.chain(name);
                (snapshot.has_chain(&chain), snapshot.index(&chain).is_some(), snapshot.rules(&chain).is_some())
            };
            assert_eq!(shown("C"), (true, is_indexed, !is_indexed), "{table}");
            assert_eq!([shown("!C"), shown("E")], [(true, false, true), (false, false, false)], "{table}");
            assert_eq!(shown("empty"), (true, is_indexed, true), "{table}");
        }
    }
}
