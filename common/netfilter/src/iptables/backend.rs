//! The seam between what is wanted of iptables and the machine.

use std::any::Any;

use super::batch::Batch;
use super::error::{BatchError, IptablesError};
use super::rule::{IptablesRule, IptablesTable};
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The packet filter of the network namespace that the plugin runs in.
pub trait Iptables {
    /// The rules of a chain in order; `None` when the chain does not exist.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn list(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<Option<Vec<IptablesRule>>, IptablesError>;

    /// The same, of which only the rules count: a chain of the table itself that nobody has used yet is not made by looking.
    ///
    /// # Errors
    /// As [`Iptables::list`].
    fn look(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<Option<Vec<IptablesRule>>, IptablesError> {
        self.list(family, table, chain)
    }

    /// Where the copies of each of some rules are in their chain, counted from 0, if that is known without reading the
    /// chain whole.
    fn places(
        &mut self,
        _family: Family,
        _table: IptablesTable,
        _chain: &ChainName,
        _rules: &[&IptablesRule],
    ) -> Option<Vec<Vec<usize>>> {
        None
    }

    /// Carries out a batch, all of it or nothing.
    ///
    /// # Errors
    /// [`BatchError::Refused`] when one of its lines does not fit what is there.
    fn commit(&mut self, batch: &Batch) -> Result<(), BatchError>;

    /// Whether there is a program for the family; none is run to find out.
    fn is_installed(&mut self, family: Family) -> bool;

    /// Keeps other plugins from changing what containers share, until the value is dropped.
    ///
    /// # Errors
    /// [`IptablesError::Locked`] when another holds the lock for too long.
    fn lock(&mut self) -> Result<SkeletonLock, IptablesError>;
}

/// The lock around what containers share, until it is dropped.
#[derive(Debug)]
pub struct SkeletonLock {
    has_waited: bool,
    #[expect(dead_code, reason = "it is released when it is dropped")]
    held: Box<dyn Any>,
}

impl SkeletonLock {
    /// A lock that is released when `held` is dropped, and whether others had it when it was asked for.
    pub fn new(held: impl Any, has_waited: bool) -> Self {
        Self { has_waited, held: Box::new(held) }
    }

    /// Whether others had it when it was asked for, and may have made what was missing.
    pub const fn has_waited(&self) -> bool {
        self.has_waited
    }
}
