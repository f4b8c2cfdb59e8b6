//! Chooses how to access iptables: over netlink if the host's iptables uses nf_tables, otherwise by its programs.
//!
//! Both ways give the same rules, byte for byte. If netlink cannot read or write something with certainty, the
//! programs do it: a chain with a rule of an unknown kind, a table that does not exist yet, a user's own words.
//!
//! If the programs have been removed since the rules were made, rules in nf_tables are still read and removed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::Netfilter;
use cni_netfilter::iptables::{
    Batch, BatchError, BatchRefusal, Iptables, IptablesError, IptablesRule, IptablesTable, RulePlaces, SkeletonLock,
};
use cni_netfilter::nftables::Nftables;

use super::native::{BatchOutcome, Native, NativeIptables};
use super::restore::RestoreIptables;
use crate::nftables::{KeptTables, NetlinkNftables};
use cni_kernel::netns::NetnsScope;

/// The program that the iptables programs of the nf_tables flavour are links to.
const NFT_FLAVOUR: &str = "xtables-nft-multi";

/// The packet filter of the network namespace that the calling thread is in when it is first used.
#[derive(Debug)]
pub struct AutoIptables {
    programs: RestoreIptables,
    kernel: NetlinkNftables,
    /// Of each family that was asked for: its programs.
    found: BTreeMap<Family, Installed>,
}

/// The programs of a family, where they were looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installed {
    No,
    Legacy,
    /// They keep its tables in nf_tables.
    Nftables,
}

impl AutoIptables {
    /// Works with the programs that `PATH` leads to, and without them where they keep the tables in nf_tables.
    pub fn new() -> Self {
        Self::of(RestoreIptables::new(), NetlinkNftables::new())
    }

    /// Works with the programs that another list of directories leads to.
    #[must_use]
    pub fn with_path(self, path: OsString) -> Self {
        Self::of(self.programs.with_path(path.clone()), self.kernel.with_path(path))
    }

    /// Waits for locks no longer than this; iptables counts in seconds.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { programs: self.programs.with_patience(patience), ..self }
    }

    /// Works in another namespace than that of the calling thread.
    #[must_use]
    pub fn within(self, scope: NetnsScope) -> Self {
        Self::of(self.programs.within(scope.clone()), self.kernel.within(scope))
    }

    const fn of(programs: RestoreIptables, kernel: NetlinkNftables) -> Self {
        Self { programs, kernel, found: BTreeMap::new() }
    }

    /// Reads tables as a whole, and keeps them for as long as nothing changes. Others' changes are noticed after
    /// [`expire`](Self::expire).
    pub fn keep_tables(&mut self, kept: KeptTables) {
        self.kernel.connection().keep_tables(kept);
    }

    /// Asks the kernel for changes before kept tables are used again.
    pub fn expire(&mut self) {
        self.kernel.connection().expire();
    }

    /// The programs make a missing table and its own chains when they list one.
    fn list_by_programs(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<Option<Vec<IptablesRule>>, IptablesError> {
        let listed = self.programs.list(family, table, chain);
        self.expire();
        listed
    }

    fn commit_by_programs(&mut self, batch: &Batch) -> Result<(), BatchError> {
        let done = self.programs.commit(batch);
        self.expire();
        done
    }

    /// Whether the programs of a family are missing, so that only nf_tables can hold rules of this table.
    fn has_lost_programs(&mut self, family: Family, table: IptablesTable) -> bool {
        self.installed(family) == Installed::No && !is_in_legacy_kernel(family, table, self.programs.scope())
    }

    fn list_without_programs(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Option<Option<Vec<IptablesRule>>> {
        match NativeIptables::new(self.kernel.connection()).look(family, table, chain) {
            Native::Done(rules) => Some(rules),
            Native::Fallback(reason) => {
                log::debug!("chain {chain} cannot be read without iptables: {reason}");
                None
            }
        }
    }

    fn installed(&mut self, family: Family) -> Installed {
        *self
            .found
            .entry(family)
            .or_insert_with(|| self.programs.find(family).map_or(Installed::No, |file| flavour(&file)))
    }

    fn is_in_nftables(&mut self, family: Family) -> bool {
        self.installed(family) == Installed::Nftables
    }
}

/// Whether the kernel's own tables of iptables, which the legacy programs use, may have rules of a table. It lists
/// those in use in each network namespace (`net/netfilter/x_tables.c`).
fn is_in_legacy_kernel(family: Family, table: IptablesTable, scope: &NetnsScope) -> bool {
    let names = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match scope.run(|| fs::read_to_string(names)).and_then(|read| read) {
        Ok(tables) => tables.lines().any(|name| name == table.as_str()),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            log::debug!("{names} cannot be read: {error}");
            true
        }
    }
}

/// The flavour of a program. A script in the place of one of the nf_tables flavour does not count.
fn flavour(program: &Path) -> Installed {
    match fs::canonicalize(program) {
        Ok(file) if file.file_name() == Some(OsStr::new(NFT_FLAVOUR)) => Installed::Nftables,
        Ok(_) | Err(_) => Installed::Legacy,
    }
}

impl Default for AutoIptables {
    fn default() -> Self {
        Self::new()
    }
}

impl Netfilter for AutoIptables {
    fn iptables(&mut self) -> &mut dyn Iptables {
        self
    }

    fn nftables(&mut self) -> &mut dyn Nftables {
        &mut self.kernel
    }
}

impl Iptables for AutoIptables {
    fn list(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<Option<Vec<IptablesRule>>, IptablesError> {
        if self.is_in_nftables(family) {
            match NativeIptables::new(self.kernel.connection()).list(family, table, chain) {
                Native::Done(rules) => return Ok(rules),
                Native::Fallback(reason) => {
                    log::debug!("reading chain {chain} with iptables instead of netlink: {reason}")
                }
            }
        }
        match self.has_lost_programs(family, table).then(|| self.list_without_programs(family, table, chain)).flatten()
        {
            Some(rules) => Ok(rules),
            None => self.list_by_programs(family, table, chain),
        }
    }

    fn look(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<Option<Vec<IptablesRule>>, IptablesError> {
        if self.is_in_nftables(family)
            && let Native::Done(rules) = NativeIptables::new(self.kernel.connection()).look(family, table, chain)
        {
            return Ok(rules);
        }
        self.list(family, table, chain)
    }

    fn places(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
        rules: &[&IptablesRule],
    ) -> Result<RulePlaces, IptablesError> {
        if self.is_in_nftables(family)
            && let Native::Done(places) =
                NativeIptables::new(self.kernel.connection()).places(family, table, chain, rules)
        {
            return Ok(places);
        }
        let listed = self.list(family, table, chain)?.unwrap_or_default();
        Ok(RulePlaces::among(listed.into_iter().enumerate(), rules))
    }

    fn kept(&mut self, family: Family, table: IptablesTable, rules: &[&IptablesRule]) -> Option<bool> {
        if !self.is_in_nftables(family) {
            return None;
        }
        NativeIptables::new(self.kernel.connection()).kept(family, table, rules)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), BatchError> {
        let is_removal = batch.only_removes() && !batch.changes_nothing();
        let is_native =
            self.is_in_nftables(batch.family) || (is_removal && self.has_lost_programs(batch.family, batch.table));
        if !is_native {
            return self.commit_by_programs(batch);
        }
        let (family, table) = (batch.family, batch.table);
        match NativeIptables::new(self.kernel.connection()).commit(batch) {
            Native::Done(BatchOutcome::Committed) => Ok(()),
            Native::Done(BatchOutcome::Refused(line)) => {
                let program = format!("table {family} {table} of nf_tables");
                Err(BatchError::Refused(BatchRefusal { program, text: format!("{line}: does not fit") }))
            }
            Native::Done(BatchOutcome::Unanswered(cause)) => {
                Err(BatchError::Failed(IptablesError::Unanswered { family, table, source: Box::new(cause) }))
            }
            Native::Fallback(reason) => {
                log::debug!("changing the {family} rules of table {table} with iptables instead of netlink: {reason}");
                self.commit_by_programs(batch)
            }
        }
    }

    fn is_installed(&mut self, family: Family) -> bool {
        self.installed(family) != Installed::No
    }

    fn lock(&mut self) -> Result<SkeletonLock, IptablesError> {
        let lock = self.programs.lock();
        self.expire();
        lock
    }
}
