//! A machine in memory, as far as this plugin is concerned: a packet filter, a route, and parameters.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::request::Command;
use cni_netfilter::firewalld::Firewalld;
use cni_netfilter::iptables::Iptables;
use cni_netfilter::nftables::Nftables;
use cni_netfilter::{Backend, Netfilter};
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::keeper::Keeper;
use cni_plugin::link::{Address, KernelRoute, Link};
use cni_plugin::plan::{Ns, Step, Sysctl};
use cni_plugin::vlan::BridgeVlan;
use cni_testkit::{FakeNftables, FakePrograms};

#[derive(Default)]
pub struct Machine {
    pub filter: FakePrograms,
    /// The link by which every packet leaves.
    pub link: Option<&'static str>,
    pub parameters: BTreeMap<String, String>,
    pub applied: Vec<String>,
    /// The nf_tables of the kernel.
    pub kernel: FakeNftables,
    /// What was wanted of nf_tables.
    pub nftables: Vec<String>,
    /// The connections that were to be forgotten.
    pub forgotten: Vec<String>,
    /// The step that fails, counted from 1.
    pub failing: Option<usize>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub &'static str);

impl Failure for Broken {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

impl Netfilter for Machine {
    fn iptables(&mut self) -> &mut dyn Iptables {
        &mut self.filter
    }

    fn nftables(&mut self) -> &mut dyn Nftables {
        &mut self.kernel
    }
}

impl Host for Machine {
    fn netfilter(&mut self, _: Ns) -> Result<&mut dyn Netfilter, Error> {
        Ok(self)
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        panic!("this plugin does not use firewalld");
    }

    fn address_keepers(&mut self, address: IpAddr) -> Result<Vec<Keeper>, Error> {
        panic!("this plugin claims no address: {address}");
    }

    fn address_owner(&mut self, address: IpAddr) -> Result<Option<Attachment>, Error> {
        panic!("this plugin claims no address: {address}");
    }

    fn addresses_owned_by(&mut self, owner: &Attachment) -> Result<Vec<IpAddr>, Error> {
        panic!("this plugin claims no address for {owner:?}");
    }

    fn addresses_owned_in(&mut self, network: &NetworkName) -> Result<Vec<(IpAddr, Attachment)>, Error> {
        panic!("this plugin claims no address in {network}");
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        self.applied.push(step.to_string());
        if self.failing == Some(self.applied.len()) {
            return Err(Broken("as it was told to").into());
        }
        if let Step::EnsureRules { ns, ruleset } = step {
            if ruleset.backend() == Backend::Nftables {
                self.nftables.push(ruleset.to_string());
            }
            return Ok(ruleset.ensure(self)?.map(|removal| Step::RemoveRules { ns: *ns, removal }));
        } else if let Step::RemoveRules { ns: _, removal } = step {
            removal.remove(self)?;
        } else if let Step::SetSysctl { key, value, .. } = step {
            self.parameters.insert(key.path(), value.clone());
        } else if let Step::ForgetFlows(stale) = step {
            self.forgotten.push(stale.to_string());
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

    fn route_link(&mut self, _: IpAddr) -> Result<Option<Link>, Error> {
        let link = |name: &str| Link {
            index: 7,
            name: name.to_owned(),
            kind: Some("bridge".to_owned()),
            up: true,
            ..Link::default()
        };
        Ok(self.link.map(link))
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
