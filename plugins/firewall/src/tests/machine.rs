//! A machine in memory, as far as this plugin is concerned: the packet filters, firewalld, and who has claimed what.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::request::Command;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::{Firewalld, Zone};
use cni_netfilter::iptables::Iptables;
use cni_netfilter::nftables::Nftables;
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::keeper::Keeper;
use cni_plugin::link::{Address, KernelRoute, Link};
use cni_plugin::plan::{Ns, Step, Sysctl};
use cni_plugin::vlan::BridgeVlan;
use cni_testkit::FakeIptables;
use cni_testkit::FakeNftables;

#[derive(Default)]
pub struct Machine {
    pub filter: FakeIptables,
    pub nftables: FakeNftables,
    pub firewalld: FakeFirewalld,
    pub claims: BTreeMap<IpAddr, Attachment>,
    pub keepers: BTreeMap<IpAddr, Vec<Keeper>>,
    pub applied: Vec<String>,
    /// The step that fails, counted from 1.
    pub failing: Option<usize>,
}

/// firewalld: each address is a source of one zone at most. It forgets them when it ends.
#[derive(Default)]
pub struct FakeFirewalld {
    pub running: bool,
    pub sources: BTreeMap<IpAddr, Zone>,
    /// How often it was looked for.
    pub questions: usize,
}

impl Firewalld for FakeFirewalld {
    fn is_running(&mut self) -> bool {
        self.questions += 1;
        self.running
    }

    fn has_source(&mut self, zone: &Zone, address: IpAddr) -> Result<bool, Error> {
        self.questions += 1;
        if zone.as_str() == "nope" {
            return Err(Broken("INVALID_ZONE: nope").into());
        }
        Ok(self.running && self.sources.get(&address) == Some(zone))
    }
}

impl FakeFirewalld {
    pub fn stop(&mut self) {
        self.running = false;
        self.sources.clear();
    }

    pub fn zones(&self) -> BTreeSet<String> {
        self.sources.iter().map(|(address, zone)| format!("{zone} {address}")).collect()
    }

    fn add(&mut self, zone: &Zone, address: IpAddr) -> Result<Option<Step>, Error> {
        self.questions += 1;
        if !self.running {
            return Err(Broken("no firewalld").into());
        }
        match self.sources.get(&address) {
            Some(other) if other == zone => Ok(None),
            Some(_) => Err(Broken("ZONE_CONFLICT").into()),
            None => {
                self.sources.insert(address, zone.clone());
                Ok(Some(Step::RemoveSource { zone: zone.clone(), address }))
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub &'static str);

impl Failure for Broken {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

impl Machine {
    /// What takes a claim back leaves the claim that there was.
    fn claim(&mut self, address: IpAddr, owner: &Attachment, keeper: &Keeper) -> Option<Step> {
        let keepers = self.keepers.entry(address).or_default();
        let former_keeper = keepers.last().cloned();
        keepers.retain(|other| other != keeper);
        keepers.push(keeper.clone());
        let back = Step::ReleaseAddress { address, owner: owner.clone() };
        match (self.claims.insert(address, owner.clone()), former_keeper) {
            (Some(former), _) if former == *owner => None,
            (Some(owner), Some(keeper)) => Some(Step::ClaimAddress { address, owner, keeper }),
            _ => Some(back),
        }
    }
}

impl Netfilter for Machine {
    fn iptables(&mut self) -> &mut dyn Iptables {
        &mut self.filter
    }

    fn nftables(&mut self) -> &mut dyn Nftables {
        &mut self.nftables
    }
}

impl Host for Machine {
    fn netfilter(&mut self, _: Ns) -> Result<&mut dyn Netfilter, Error> {
        Ok(self)
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        &mut self.firewalld
    }

    fn address_keepers(&mut self, address: IpAddr) -> Result<Vec<Keeper>, Error> {
        Ok(self.keepers.get(&address).cloned().unwrap_or_default())
    }

    fn address_owner(&mut self, address: IpAddr) -> Result<Option<Attachment>, Error> {
        Ok(self.claims.get(&address).cloned())
    }

    fn addresses_owned_by(&mut self, owner: &Attachment) -> Result<Vec<IpAddr>, Error> {
        Ok(self.claims.iter().filter(|(_, claim)| *claim == owner).map(|(address, _)| *address).collect())
    }

    fn addresses_owned_in(&mut self, network: &NetworkName) -> Result<Vec<(IpAddr, Attachment)>, Error> {
        let of_network = self.claims.iter().filter(|(_, owner)| owner.network == *network);
        Ok(of_network.map(|(address, owner)| (*address, owner.clone())).collect())
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        self.applied.push(step.to_string());
        if self.failing == Some(self.applied.len()) {
            return Err(Broken("as it was told to").into());
        }
        if let Step::EnsureRules { ns, ruleset } = step {
            return Ok(ruleset.ensure(self)?.map(|removal| Step::RemoveRules { ns: *ns, removal }));
        } else if let Step::RemoveRules { ns: _, removal } = step {
            removal.remove(self)?;
        } else if let Step::AddSource { zone, address } = step {
            return self.firewalld.add(zone, *address);
        } else if let Step::RemoveSource { zone, address } = step {
            self.firewalld.questions += 1;
            self.firewalld.sources.retain(|source, of| source != address || of != zone);
        } else if let Step::ClaimAddress { address, owner, keeper } = step {
            return Ok(self.claim(*address, owner, keeper));
        } else if let Step::ReleaseAddress { address, owner } = step {
            if self.claims.get(address) == Some(owner) {
                self.claims.remove(address);
                self.keepers.remove(address);
            }
        } else {
            panic!("no step of this plugin: {step}");
        }
        Ok(None)
    }

    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        panic!("this plugin enters no namespace: {path}");
    }

    fn is_own_netns(&mut self, _: &str) -> Result<bool, Error> {
        Ok(false)
    }

    fn container_identity(&mut self) -> Option<String> {
        None
    }

    fn link(&mut self, _: Ns, name: &IfName) -> Result<Option<Link>, Error> {
        panic!("this plugin needs no link: {name}");
    }

    fn link_by_index(&mut self, _: Ns, index: u32) -> Result<Option<Link>, Error> {
        panic!("this plugin needs no link: {index}");
    }

    fn veths(&mut self) -> Result<Vec<Link>, Error> {
        panic!("this plugin needs no link");
    }

    fn addresses(&mut self, _: Ns, _: Option<u32>, _: Option<Family>) -> Result<Vec<Address>, Error> {
        panic!("this plugin needs no addresses");
    }

    fn port_vlans(&mut self, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        panic!("this plugin needs no VLANs: {index}");
    }

    fn routes(&mut self, _: Ns, _: Family, _: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        panic!("this plugin needs no routes");
    }

    fn route_link(&mut self, address: IpAddr) -> Result<Option<Link>, Error> {
        panic!("this plugin needs no route to {address}");
    }

    fn sysctl(&mut self, _: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        panic!("this plugin reads no parameter: {}", key.path());
    }

    fn delegate(&mut self, plugin: &str, _: Command) -> Result<Vec<u8>, Error> {
        panic!("this plugin delegates nothing: {plugin}");
    }

    fn random(&mut self) -> Result<[u8; 8], Error> {
        panic!("this plugin draws no lots");
    }
}
