//! Both packet filters of a machine in memory, of which some may be absent.

use std::any::Any;

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::Netfilter;
use cni_netfilter::iptables::{Batch, BatchError, Iptables, IptablesError, IptablesRule, IptablesTable};
use cni_netfilter::nftables::Nftables;

use crate::{FakeIptables, FakeNftables};

/// Both packet filters of a machine in memory.
#[derive(Debug, Default)]
pub struct FakeNetfilter {
    /// The tables of iptables.
    pub iptables: FakePrograms,
    /// The nf_tables.
    pub nftables: FakeNftables,
}

impl Netfilter for FakeNetfilter {
    fn iptables(&mut self) -> &mut dyn Iptables {
        &mut self.iptables
    }

    fn nftables(&mut self) -> &mut dyn Nftables {
        &mut self.nftables
    }
}

/// Tables of iptables for which the programs of a family may not be installed.
#[derive(Debug, Default)]
pub struct FakePrograms {
    /// The tables.
    pub tables: FakeIptables,
    /// The families without programs.
    pub lacking: Vec<Family>,
}

impl FakePrograms {
    fn locate(&self, family: Family) -> Result<(), IptablesError> {
        if self.lacking.contains(&family) {
            let program = format!("{}-restore", family.iptables());
            return Err(IptablesError::NoProgram { program, path: "/bin".to_owned() });
        }
        Ok(())
    }
}

impl Iptables for FakePrograms {
    fn list(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<Option<Vec<IptablesRule>>, IptablesError> {
        self.locate(family)?;
        self.tables.list(family, table, chain)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), BatchError> {
        self.locate(batch.family).map_err(BatchError::Failed)?;
        self.tables.commit(batch)
    }

    fn is_installed(&mut self, family: Family) -> bool {
        self.locate(family).is_ok()
    }

    fn lock(&mut self) -> Result<Box<dyn Any>, IptablesError> {
        self.tables.lock()
    }
}
