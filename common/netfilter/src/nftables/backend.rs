//! The trait between decisions about nf_tables and the machine.

use std::net::IpAddr;

use super::change::{RuleSelection, WantedRules};
use super::listed::ListedRule;
use super::object::ChainId;
use super::set::SetElements;
use super::transaction::{Generation, Transaction};
use crate::error::NetfilterError;

/// The nf_tables of the network namespace that the plugin runs in.
pub trait Nftables {
    /// The rules of a chain in order; `None` when the chain does not exist.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NetfilterError>;

    /// Returns the selected rules of a chain, in order; `None` if the chain does not exist. May read only a part of the chain.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn find(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, NetfilterError> {
        let meant = WantedRules::new(meant);
        let is_meant = |rule: &ListedRule| meant.hold(chain.table.family, rule);
        Ok(self.list(chain)?.map(|rules| rules.into_iter().filter(is_meant).collect()))
    }

    /// The numbers of those rules of a chain that are meant, in order; `None` when the chain does not exist.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn find_handles(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<u64>>, NetfilterError> {
        Ok(self.find(chain, meant)?.map(|rules| rules.iter().map(|rule| rule.handle).collect()))
    }

    /// Which of some addresses a set holds; `None` when the set does not exist.
    ///
    /// # Errors
    /// When the set cannot be read, which is never treated as absence.
    fn held(&mut self, elements: &SetElements) -> Result<Option<Vec<IpAddr>>, NetfilterError>;

    /// The state that everything is in.
    fn generation(&mut self) -> Result<Generation, NetfilterError>;

    /// Carries out a transaction, completely or not at all.
    ///
    /// # Errors
    /// [`NetfilterErrorKind::Refused`](crate::NetfilterErrorKind::Refused) if a change does not fit what exists, or if something has changed since the
    /// generation that it is bound to.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), NetfilterError>;
}
