//! The host's tables: over netlink where its iptables keeps them in nf_tables, else by its programs.
//!
//! Both lead to the same rules, byte for byte. What the one cannot read or write with certainty the other
//! does: a chain with a rule of an unknown kind, a table that is not there yet, a user's own words.

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::time::Duration;

use cni_core::family::Family;
use cni_core::firewall::{Batch, CommitError, FilterError, Refusal, Rule, Table, Tables};
use cni_core::names::ChainName;

use super::RestoreTables;
use super::program::find;
use crate::nftables::{Done, Judged, NetlinkNftables};

/// What the programs of iptables that keep their tables in nf_tables are links to.
const NFT_FLAVOUR: &str = "xtables-nft-multi";

/// The packet filter of the network namespace that the calling thread is in when it is first used.
#[derive(Debug)]
pub struct HostTables {
    programs: RestoreTables,
    kernel: NetlinkNftables,
}

impl HostTables {
    /// Works with the programs that `PATH` leads to, and without them where they keep the tables in nf_tables.
    pub fn new() -> Self {
        Self { programs: RestoreTables::new(), kernel: NetlinkNftables::new() }
    }

    /// Works with the programs that another list of directories leads to.
    #[must_use]
    pub fn with_path(self, path: OsString) -> Self {
        let Self { programs, kernel } = self;
        Self { programs: programs.with_path(path.clone()), kernel: kernel.with_path(path) }
    }

    /// Waits for locks no longer than this; iptables counts in seconds.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { programs: self.programs.with_patience(patience), ..self }
    }

    /// The nf_tables, in their own terms.
    pub const fn nftables(&mut self) -> &mut NetlinkNftables {
        &mut self.kernel
    }

    fn is_in_nftables(&self, family: Family) -> bool {
        is_in_nftables(&format!("{}-restore", family.iptables()), self.programs.path())
    }
}

/// Whether a program that `path` leads to is one of those. A script in its place may be there for a reason.
fn is_in_nftables(program: &str, path: &OsStr) -> bool {
    let file = find(program, path).and_then(|file| fs::canonicalize(file).ok());
    file.is_some_and(|file| file.file_name() == Some(OsStr::new(NFT_FLAVOUR)))
}

impl Default for HostTables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables for HostTables {
    fn list(&mut self, family: Family, table: Table, chain: &ChainName) -> Result<Option<Vec<Rule>>, FilterError> {
        if self.is_in_nftables(family)
            && let Judged::Clear(rules) = self.kernel.list_compat(family, table, chain)
        {
            return Ok(rules);
        }
        self.programs.list(family, table, chain)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if !self.is_in_nftables(batch.family) {
            return self.programs.commit(batch);
        }
        let program = || format!("table {} {} of nf_tables", batch.family, batch.table);
        match self.kernel.commit_compat(batch) {
            Judged::Clear(Done::Committed) => Ok(()),
            Judged::Clear(Done::Refused(line)) => {
                Err(CommitError::Refused(Refusal { program: program(), text: format!("{line}: does not fit") }))
            }
            Judged::Clear(Done::Unsettled(cause)) => {
                Err(CommitError::Failed(FilterError::Run { program: program(), source: Box::new(cause) }))
            }
            Judged::Unclear => self.programs.commit(batch),
        }
    }

    fn is_installed(&mut self, family: Family) -> bool {
        self.programs.is_installed(family)
    }

    fn lock(&mut self) -> Result<Box<dyn Any>, FilterError> {
        self.programs.lock()
    }
}
