//! Both packet filters of a network namespace in memory; either can be absent.

use cni_core::family::Family;
use cni_netfilter::Netfilter;
use cni_netfilter::iptables::{Iptables, IptablesTable};
use cni_netfilter::nftables::Nftables;

use crate::iptables::FakeIptables;
use crate::nftables::FakeNftables;

/// The packet filter of a namespace.
#[derive(Debug, Default)]
pub struct FakeNetfilter {
    pub iptables: FakeIptables,
    /// Its nf_tables.
    pub nftables: FakeNftables,
}

impl FakeNetfilter {
    /// Every rule of both engines.
    pub fn dump(&self) -> String {
        let tables = [IptablesTable::Nat, IptablesTable::Filter].into_iter();
        let all = tables.flat_map(|table| Family::ALL.map(|family| (family, table)));
        let iptables = all.map(|(family, table)| {
            let rules = self.iptables.dump(family, table);
            rules.lines().map(|rule| format!("{} -t {table} {rule}\n", family.iptables())).collect::<String>()
        });
        iptables.collect::<String>() + &self.nftables.dump()
    }
}

impl Netfilter for FakeNetfilter {
    fn iptables(&mut self) -> &mut dyn Iptables {
        &mut self.iptables
    }

    fn nftables(&mut self) -> &mut dyn Nftables {
        &mut self.nftables
    }
}
