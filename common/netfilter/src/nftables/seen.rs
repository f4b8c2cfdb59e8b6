//! What was read of some chains and sets: facts for one transaction, true at the moment of reading only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::backend::Nftables;
use super::change::Which;
use super::error::NftablesError;
use super::listed::ListedRule;
use super::object::{ChainId, TableId};
use super::set::{SetElements, SetId};

/// What is to be read of a chain.
enum Question {
    Whole,
    /// Those of its rules that are meant, and whether it exists.
    These(Vec<Which>),
}

/// What is to be read of some chains, each named once, in the order in which they are asked for.
#[derive(Default)]
pub(super) struct Questions<'a>(Vec<(&'a ChainId, Question)>);

impl<'a> Questions<'a> {
    /// Asks for all rules of a chain.
    pub(super) fn whole(&mut self, chain: &'a ChainId) {
        *self.of(chain) = Question::Whole;
    }

    /// Asks for some rules of a chain, and whether it exists.
    pub(super) fn these(&mut self, chain: &'a ChainId, meant: impl IntoIterator<Item = Which>) {
        match self.of(chain) {
            Question::Whole => {}
            Question::These(asked) => asked.extend(meant),
        }
    }

    fn of(&mut self, chain: &'a ChainId) -> &mut Question {
        let at = self.0.iter().position(|(asked, _)| *asked == chain).unwrap_or_else(|| {
            self.0.push((chain, Question::These(Vec::new())));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

/// The chains, and the elements of sets, that were asked for.
#[derive(Default)]
pub(super) struct SeenObjects {
    /// `None` for a chain that does not exist.
    chains: BTreeMap<ChainId, Option<Vec<ListedRule>>>,
    /// `None` for a set that does not exist.
    sets: Vec<(SetId, Option<Vec<IpAddr>>)>,
}

impl SeenObjects {
    /// Reads chains, as far as is asked, and looks for elements.
    pub(super) fn observe(
        nftables: &mut dyn Nftables,
        chains: &Questions<'_>,
        elements: &[SetElements],
    ) -> Result<Self, NftablesError> {
        let mut seen = Self::default();
        for (chain, question) in &chains.0 {
            let rules = match question {
                Question::Whole => nftables.list(chain)?,
                Question::These(meant) => nftables.find(chain, meant)?,
            };
            seen.chains.insert((*chain).clone(), rules);
        }
        for wanted in elements {
            seen.sets.push((wanted.set.clone(), nftables.held(wanted)?));
        }
        Ok(seen)
    }

    pub(super) fn exists(&self, chain: &ChainId) -> bool {
        self.chains.get(chain).is_some_and(Option::is_some)
    }

    /// Whether one of its chains proves that a table is there.
    pub(super) fn has_table(&self, table: &TableId) -> bool {
        self.chains.iter().any(|(chain, rules)| chain.table == *table && rules.is_some())
    }

    /// Whether one of its elements was looked for with success, or its set was there to look into.
    pub(super) fn has_set(&self, set: &SetId) -> bool {
        self.sets.iter().any(|(seen, held)| seen == set && held.is_some())
    }

    /// The rules of a chain that were asked for, none when it does not exist.
    pub(super) fn rules(&self, chain: &ChainId) -> &[ListedRule] {
        self.chains.get(chain).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Those of some elements that exist, and those that do not.
    pub(super) fn divide(&self, wanted: &SetElements) -> (SetElements, SetElements) {
        let held = self.sets.iter().filter(|(set, _)| *set == wanted.set).filter_map(|(_, held)| held.as_ref());
        let held: BTreeSet<&IpAddr> = held.flatten().collect();
        let (there, absent) = wanted.addresses.iter().copied().partition(|address| held.contains(address));
        let of = |addresses| SetElements { set: wanted.set.clone(), addresses };
        (of(there), of(absent))
    }
}
