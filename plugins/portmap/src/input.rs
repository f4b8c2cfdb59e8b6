//! The input of a call: the configuration, the addresses to which its ports lead, and the host ports.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_model::plan::Ns;
use cni_netfilter::iptables::IptablesTable;
use cni_netfilter::{Backend, Proto};
use cni_plugin::host::Host;

use crate::config::{Config, Keys, ListenAddress, Mapping};
use crate::register::ChainRegister;

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
        let chains = ChainRegister::observe(&at, host.records());
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

/// A port of the host that leads to a container. Two containers can have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedPort {
    pub port: u16,
    pub proto: Proto,
    /// The address of the host; the unspecified one means every one of its family.
    pub address: IpAddr,
}

impl PublishedPort {
    /// The host port of a mapping in the family of a container's address, if any.
    pub fn of(mapping: &Mapping, target: Cidr) -> Option<Self> {
        let family = target.family();
        let address = match mapping.listen {
            ListenAddress::Address(address) => address,
            ListenAddress::Anywhere | ListenAddress::Family(_) => family.unspecified(),
        };
        let port = Self { port: mapping.host_port, proto: mapping.proto, address };
        mapping.applies_to(family).then_some(port)
    }

    /// Whether a packet can match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let same_address = self.address == other.address;
        let same_family = Family::of(self.address) == Family::of(other.address);
        let addresses =
            same_address || same_family && (self.address.is_unspecified() || other.address.is_unspecified());
        self.port == other.port && self.proto == other.proto && addresses
    }

    pub const fn family(&self) -> Family {
        Family::of(self.address)
    }
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.proto, SocketAddr::new(self.address, self.port))
    }
}

#[cfg(test)]
mod tests;
