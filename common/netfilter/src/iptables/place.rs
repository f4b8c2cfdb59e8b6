//! The positions of rules in their chains, at the moment of reading.

use std::collections::HashMap;

use super::rule::IptablesRule;

/// The positions of all copies of some rules.
#[derive(Debug, Default)]
pub struct RulePlaces(HashMap<IptablesRule, Vec<usize>>);

impl RulePlaces {
    /// The positions of some rules among listed ones.
    pub fn among(listed: impl IntoIterator<Item = (usize, IptablesRule)>, rules: &[&IptablesRule]) -> Self {
        let mut places: HashMap<IptablesRule, Vec<usize>> =
            rules.iter().map(|rule| (rule.canonical(), Vec::new())).collect();
        for (place, rule) in listed {
            if let Some(places) = places.get_mut(&rule) {
                places.push(place);
            }
        }
        Self(places)
    }

    /// Takes in the positions of rules of another chain.
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The number of copies of a rule.
    pub(super) fn copies(&self, rule: &IptablesRule) -> usize {
        self.of(rule).len()
    }

    /// Whether a rule precedes another one of its chain; true if either is missing.
    pub(super) fn is_above(&self, rule: &IptablesRule, other: &IptablesRule) -> bool {
        self.of(rule).first().zip(self.of(other).first()).is_none_or(|(rule, other)| rule < other)
    }

    fn of(&self, rule: &IptablesRule) -> &[usize] {
        self.0.get(&rule.canonical()).map(Vec::as_slice).unwrap_or_default()
    }
}
