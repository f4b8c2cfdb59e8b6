//! Implements [`cni_netfilter::iptables::Iptables`] for the machine's packet filter.
//!
//! [`RestoreIptables`] uses the programs of either flavour of iptables; [`AutoIptables`] avoids them where it can.
//! They decide nothing: `cni_netfilter::iptables` decides what to write, and what to do if the kernel refuses it.
//!
//! [`AutoIptables`] works over netlink if the host's iptables uses nf_tables, otherwise by its programs. Both ways give the
//! same rules, byte for byte. If netlink cannot read or write something with certainty, the programs do it: a chain with a
//! rule of an unknown kind, a table that does not exist yet, a user's own words.
//!
//! If the programs have been removed since the rules were made, or find no tables in the kernel, rules in nf_tables are still read and
//! removed. Rules of others that neither can read stay where they are.

mod native;
mod restore;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_files::links;
use cni_kernel::netns::NetnsScope;
use cni_netfilter::iptables::{Batch, ChainRules, Iptables, IptablesRule, IptablesTable, SharedChainsLock};
use cni_netfilter::nftables::Nftables;
use cni_netfilter::{Netfilter, NetfilterError, NetfilterErrorKind};

use crate::nftables::NetlinkNftables;
use native::UnknownRules;
pub use restore::RestoreIptables;
use restore::legacy_tables;

/// The program that the iptables programs of the nf_tables flavour are links to.
const NFT_FLAVOUR: &str = "xtables-nft-multi";

/// The same of the legacy flavour.
const LEGACY_FLAVOUR: &str = "xtables-legacy-multi";

/// The packet filter of the network namespace that the calling thread is in when it is first used.
#[derive(Debug)]
pub struct AutoIptables {
    programs: RestoreIptables,
    kernel: NetlinkNftables,
    /// Of each family that was asked for: its programs.
    found: BTreeMap<Family, Installed>,
    /// The tables that the kernel does not have, with the error that says so.
    lacking: BTreeMap<(Family, IptablesTable), NetfilterError>,
}

/// The programs of a family, where they were looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installed {
    No,
    /// They keep its tables in the kernel's own ones.
    Legacy,
    /// They keep its tables in nf_tables.
    Nftables,
    /// They are scripts, or older than both names.
    Unknown,
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
        Self { programs, kernel, found: BTreeMap::new(), lacking: BTreeMap::new() }
    }

    /// Reads tables as a whole, and keeps them for as long as nothing changes. Others' changes are noticed after
    /// [`expire`](Self::expire).
    pub fn keep_tables(&mut self) {
        self.kernel.connection.keep_tables();
    }

    /// Takes over what another one keeps of the tables of the same namespace.
    pub(crate) fn take_over_tables(&mut self, former: &mut Self) {
        self.kernel.connection.take_over_tables(&mut former.kernel.connection);
    }

    /// Asks the kernel for changes before kept tables are used again.
    pub fn expire(&mut self) {
        self.kernel.connection.expire();
    }

    /// The programs make a missing table and its own chains when they list one.
    fn list_by_programs(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<ChainRules, NetfilterError> {
        self.find_lacking(family, table)?;
        let listed = self.programs.list(family, table, chain);
        if let Err(error) = &listed
            && error.kind == NetfilterErrorKind::NoTable
        {
            self.lacking.insert((family, table), error.clone());
        }
        self.expire();
        listed
    }

    /// Fails if a program has found no table before.
    fn find_lacking(&self, family: Family, table: IptablesTable) -> Result<(), NetfilterError> {
        self.lacking.get(&(family, table)).cloned().map_or(Ok(()), Err)
    }

    fn commit_by_programs(&mut self, batch: &Batch) -> Result<(), NetfilterError> {
        self.find_lacking(batch.family, batch.table)?;
        let done = self.programs.commit(batch);
        self.expire();
        done
    }

    /// Whether the programs of a family are missing, or find no table, so that netlink alone can read rules.
    fn has_lost_programs(&mut self, family: Family, table: IptablesTable) -> bool {
        self.lacking.contains_key(&(family, table)) || self.installed(family) == Installed::No
    }

    /// Reads a chain that the programs cannot read. Returns `None` if it cannot be read over netlink either; without nf_tables there
    /// is no chain.
    fn list_without_programs(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Option<ChainRules> {
        match native::list(&mut self.kernel.connection, family, table, chain, UnknownRules::Keep) {
            Ok(rules) => Some(rules),
            Err(reason) => {
                log::debug!("chain {chain} cannot be read without iptables: {reason}");
                let is_unsupported = |error: NetfilterError| error.kind == NetfilterErrorKind::Unsupported;
                self.kernel.generation().is_err_and(is_unsupported).then_some(None)
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

/// Whether the kernel's own tables of iptables may have rules of a table.
fn is_in_legacy_kernel(family: Family, table: IptablesTable, scope: &NetnsScope) -> bool {
    match legacy_tables(family, scope) {
        Ok(tables) => tables.lines().any(|name| name == table.as_str()),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            log::debug!("the {family} tables of iptables in the kernel cannot be listed: {error}");
            true
        }
    }
}

/// The flavour of a program, by the name of the file that its links lead to. A script in the place of one counts as unknown.
fn flavour(program: &Path) -> Installed {
    let file = links(program.to_owned()).last();
    match file.as_deref().and_then(Path::file_name) {
        Some(name) if name == NFT_FLAVOUR => Installed::Nftables,
        Some(name) if name == LEGACY_FLAVOUR => Installed::Legacy,
        Some(_) | None => Installed::Unknown,
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
    fn list(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainRules, NetfilterError> {
        if self.is_in_nftables(family) {
            match native::list(&mut self.kernel.connection, family, table, chain, UnknownRules::Refuse) {
                Ok(rules) => return Ok(rules),
                Err(reason) => {
                    log::debug!("reading chain {chain} with iptables instead of netlink: {reason}")
                }
            }
        }
        match self.list_by_programs(family, table, chain) {
            // Its own tables, with rules that only nft can print.
            Err(error) if error.kind == NetfilterErrorKind::Failed && self.is_in_nftables(family) => {
                self.list_without_programs(family, table, chain).ok_or(error)
            }
            Err(error) if error.is_absence() && self.has_lost_programs(family, table) => {
                match self.list_without_programs(family, table, chain) {
                    Some(None) if is_in_legacy_kernel(family, table, &self.programs.scope) => Err(error),
                    read => read.ok_or(error),
                }
            }
            listed => listed,
        }
    }

    fn find(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
        rules: &[&IptablesRule],
    ) -> Result<Vec<(usize, IptablesRule)>, NetfilterError> {
        if self.is_in_nftables(family)
            && let Ok(found) = native::find(&mut self.kernel.connection, family, table, chain, rules)
        {
            return Ok(found);
        }
        Ok(self.list(family, table, chain)?.unwrap_or_default().into_iter().enumerate().collect())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), NetfilterError> {
        let is_native = self.is_in_nftables(batch.family)
            || (batch.only_removes() && self.has_lost_programs(batch.family, batch.table));
        if is_native {
            match native::commit(&mut self.kernel.connection, batch) {
                Ok(done) => return done,
                Err(reason) => log::debug!(
                    "changing the {} rules of table {} with iptables instead of netlink: {reason}",
                    batch.family,
                    batch.table
                ),
            }
        }
        self.commit_by_programs(batch)
    }

    /// Tables of the nf_tables flavour are there with the kernel's nf_tables, without which there is no other back end either.
    fn absence(&mut self, family: Family, table: IptablesTable) -> Option<NetfilterError> {
        match self.installed(family) {
            _ if self.lacking.contains_key(&(family, table)) => self.find_lacking(family, table).err(),
            Installed::Nftables => None,
            Installed::Legacy if is_in_legacy_kernel(family, table, &self.programs.scope) => None,
            Installed::Legacy | Installed::Unknown | Installed::No => {
                let listed = self.list_by_programs(family, table, &ChainName::fixed("OUTPUT"));
                listed.err().filter(NetfilterError::is_absence)
            }
        }
    }

    fn lock(&mut self) -> Result<SharedChainsLock, NetfilterError> {
        let lock = self.programs.lock();
        self.expire();
        lock
    }
}
