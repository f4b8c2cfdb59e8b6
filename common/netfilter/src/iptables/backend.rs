//! The trait between decisions about iptables and the machine.

use std::any::Any;

use super::batch::Batch;
use super::rule::{IptablesRule, IptablesTable};
use crate::error::NetfilterError;
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The rules of a chain in order; `None` if there is no such chain.
pub type ChainRules = Option<Vec<IptablesRule>>;

/// The packet filter of the network namespace that the plugin runs in.
pub trait Iptables {
    /// Reads a chain. One of the table's own is missing until it is used, where that can be seen.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn list(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainRules, NetfilterError>;

    /// The copies of some rules of a chain with their positions, counted from 0; other rules may be among them.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn find(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
        _rules: &[&IptablesRule],
    ) -> Result<Vec<(usize, IptablesRule)>, NetfilterError> {
        Ok(self.list(family, table, chain)?.unwrap_or_default().into_iter().enumerate().collect())
    }

    /// Carries out a batch, completely or not at all.
    ///
    /// # Errors
    /// [`NetfilterErrorKind::Refused`](crate::NetfilterErrorKind::Refused) if a line does not fit what exists.
    fn commit(&mut self, batch: &Batch) -> Result<(), NetfilterError>;

    /// Why a table certainly cannot hold rules: there is no program, or the kernel does not have the table. `None` if the table
    /// can be read, and also if that fails for a reason that may pass, such as a lock. A program is started only if nothing else tells.
    fn absence(&mut self, family: Family, table: IptablesTable) -> Option<NetfilterError>;

    /// Keeps other plugins from changing what containers share, until the value is dropped.
    ///
    /// # Errors
    /// [`NetfilterErrorKind::Locked`](crate::NetfilterErrorKind::Locked) when another holds the lock for too long.
    fn lock(&mut self) -> Result<SharedChainsLock, NetfilterError>;
}

/// The lock around what containers share, until it is dropped.
#[derive(Debug)]
pub struct SharedChainsLock {
    /// Whether another process held the lock at first, and may have made what was missing.
    pub has_waited: bool,
    /// What is released when it is dropped.
    pub held: Box<dyn Any>,
}
