//! A machine in memory, as far as rules are concerned: packet filters, and the links of one container.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::request::Command;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_netfilter::iptables::{Iptables, IptablesTable};
use cni_netfilter::nftables::Nftables;
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::keeper::Keeper;
use cni_plugin::link::{Address, KernelRoute, Link, OperState};
use cni_plugin::plan::{Ns, Step, Sysctl};
use cni_plugin::vlan::BridgeVlan;
use cni_testkit::FakeIptables;
use cni_testkit::FakeNftables;

pub struct Machine {
    pub filter: FakeIptables,
    pub nftables: FakeNftables,
    pub bridge: Link,
    /// The host's end of the veth.
    pub port: Link,
    /// The container's end.
    pub container: Link,
}

impl Default for Machine {
    fn default() -> Self {
        let bridge = Link { kind: Some("bridge".to_owned()), ..link(3, "cni0") };
        let port = Link { master: Some(3), peer: Some(2), ..link(9, "veth1") };
        let container = Link { peer: Some(9), ..link(2, "eth0") };
        Self { filter: FakeIptables::new(), nftables: FakeNftables::new(), bridge, port, container }
    }
}

fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.to_owned(),
        kind: Some("veth".to_owned()),
        mtu: 1500,
        up: true,
        oper_state: OperState::Up,
        ..Link::default()
    }
}

impl Machine {
    /// All rules of both kinds.
    pub fn rules(&self) -> String {
        Family::ALL.map(|family| self.filter.dump(family, IptablesTable::Nat)).concat() + &self.nftables.dump()
    }

    pub fn flush(&mut self) {
        self.filter = FakeIptables::new();
        self.nftables = FakeNftables::new();
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

    fn link(&mut self, ns: Ns, name: &IfName) -> Result<Option<Link>, Error> {
        let links: &[&Link] = match ns {
            Ns::Host => &[&self.bridge, &self.port],
            Ns::Container => &[&self.container],
        };
        Ok(links.iter().find(|link| link.name == name.as_str()).copied().cloned())
    }

    fn link_by_index(&mut self, ns: Ns, index: u32) -> Result<Option<Link>, Error> {
        assert_eq!(ns, Ns::Host, "the host's end is on the host");
        Ok([&self.bridge, &self.port].into_iter().find(|link| link.index == index).cloned())
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        let Step::EnsureRules { ns, ruleset } = step else { panic!("no step about rules: {step}") };
        Ok(ruleset.ensure(self)?.map(|removal| Step::RemoveRules { ns: *ns, removal }))
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

    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        panic!("the namespace is open: {path}");
    }

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        panic!("it is known where {path} leads");
    }

    fn container_identity(&mut self) -> Option<String> {
        None
    }

    fn veths(&mut self) -> Result<Vec<Link>, Error> {
        panic!("rules need no list of links");
    }

    fn addresses(&mut self, ns: Ns, _: Option<u32>, _: Option<Family>) -> Result<Vec<Address>, Error> {
        panic!("rules need no addresses of the {ns} but those of the result");
    }

    fn port_vlans(&mut self, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        panic!("rules need no VLANs: {index}");
    }

    fn routes(&mut self, ns: Ns, _: Family, _: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        panic!("rules need no routes of the {ns}");
    }

    fn route_link(&mut self, address: IpAddr) -> Result<Option<Link>, Error> {
        panic!("rules need no route to {address}");
    }

    fn sysctl(&mut self, _: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        panic!("rules need no parameter: {}", key.path());
    }

    fn delegate(&mut self, plugin: &str, _: Command) -> Result<Vec<u8>, Error> {
        panic!("rules need no {plugin}");
    }

    fn random(&mut self) -> Result<[u8; 8], Error> {
        panic!("rules need no lots");
    }
}
