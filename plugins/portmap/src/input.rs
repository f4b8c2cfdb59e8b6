//! The input of a call: the configuration, and the addresses to which its ports lead.

use std::collections::BTreeSet;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_model::plan::Ns;
use cni_netfilter::Backend;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;

use crate::config::{Config, Keys};
use crate::register::{ChainRegister, PublishedPort};

/// What is wrong with a call other than ADD that has no `prevResult`.
pub const NO_RESULT: &str = "Required prevResult missing";

/// The input of a call for an attachment.
pub struct Input {
    /// The configuration.
    pub config: Config,
    /// The attachment.
    pub at: Attachment,
    /// The container's addresses to which ports lead.
    pub targets: Vec<Cidr>,
    /// The chain of iptables that holds its rules, and what is recorded of it.
    pub chains: ChainRegister,
    /// The result of the plugin that assigned them.
    pub prev_result: CniResult,
}

impl Input {
    /// Reads what a call gets; `unchained` says what is wrong without `prevResult`.
    pub fn read(request: &Request, unchained: &str, host: &mut dyn Host) -> Result<Self, Error> {
        let at = request.attachment()?;
        let prev_result = request.prev_result();
        let input = prev_result.as_ref().ok().and_then(Option::as_ref);
        let targets = input.map(|result| targets(result, &at.ifname)).unwrap_or_default();
        let config = config(request, &targets, host)?;
        let chains = ChainRegister::observe(&at, host.ledger());
        let details = "chain portmap behind the plugin that assigns addresses";
        let prev_result = prev_result?.ok_or_else(|| fail!(InvalidConfig, "{unchained}", details: "{details}"))?;
        Ok(Self { config, at, targets, chains, prev_result })
    }

    /// The addresses to which at least one mapping leads.
    pub fn mapped(&self) -> impl Iterator<Item = Cidr> {
        self.targets.iter().copied().filter(|target| self.config.maps(target.family()))
    }

    /// The host ports that lead to them, each once.
    pub fn published(&self) -> Vec<PublishedPort> {
        let of = |target| self.config.mappings.iter().filter_map(move |mapping| PublishedPort::of(mapping, target));
        self.targets.iter().copied().flat_map(of).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The container's addresses to which ports lead: the first of each family, IPv4 first.
pub fn targets(result: &CniResult, ifname: &IfName) -> Vec<Cidr> {
    let first = |family| result.ips_of(ifname.as_str()).map(|ip| ip.address).find(|cidr| cidr.family() == family);
    Family::ALL.into_iter().filter_map(first).collect()
}

/// The configuration, with the backend chosen for the families in use where it names none.
pub fn config(request: &Request, targets: &[Cidr], host: &mut dyn Host) -> Result<Config, Error> {
    config_for(request, &targets.iter().map(|target| target.family()).collect::<Vec<_>>(), host)
}

/// The same, for some families.
pub fn config_for(request: &Request, families: &[Family], host: &mut dyn Host) -> Result<Config, Error> {
    let keys = request.decode::<Keys>()?;
    let in_use: Vec<Family> = families.iter().copied().filter(|family| keys.may_map(*family)).collect();
    let automatic = match keys.names_backend() {
        true => Backend::Iptables,
        false => Backend::choose(host.netfilter(Ns::Host)?, IptablesTable::Nat, in_use),
    };
    keys.check(automatic)
}

#[cfg(test)]
mod tests;
