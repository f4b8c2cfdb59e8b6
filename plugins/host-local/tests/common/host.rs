//! A host that knows just what host-local asks: the container's namespace, and the addresses in it.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::request::Command;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::keeper::Keeper;
use cni_plugin::link::{Address, KernelRoute, Link};
use cni_plugin::plan::{Ns, Step, Sysctl};
use cni_plugin::vlan::BridgeVlan;

/// The machine: one container's namespace, or none.
#[derive(Debug, Default)]
pub struct FakeHost {
    /// Whether `CNI_NETNS` can be entered.
    pub netns: bool,
    /// What the kernel says of the namespace.
    pub identity: Option<String>,
    /// The addresses in it.
    pub addresses: Vec<Cidr>,
}

impl FakeHost {
    /// A host whose container lives in the namespace of this identity.
    pub fn at(identity: &str) -> Self {
        Self { netns: true, identity: Some(identity.to_owned()), addresses: Vec::new() }
    }
}

impl Host for FakeHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        if self.netns {
            Ok(())
        } else {
            Err(NetnsError::Gone { path: path.to_owned(), reason: "not there".to_owned() })
        }
    }

    fn is_own_netns(&mut self, _path: &str) -> Result<bool, Error> {
        Ok(false)
    }

    fn container_identity(&mut self) -> Option<String> {
        self.identity.clone()
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        assert_eq!((ns, index, family, self.netns), (Ns::Container, None, None, true));
        Ok(self.addresses.iter().map(|cidr| Address { cidr: *cidr, tentative: false, dad_failed: false }).collect())
    }

    fn link(&mut self, _ns: Ns, _name: &IfName) -> Result<Option<Link>, Error> {
        unreachable!("host-local asks for no link")
    }

    fn link_by_index(&mut self, _ns: Ns, _index: u32) -> Result<Option<Link>, Error> {
        unreachable!("host-local asks for no link")
    }

    fn veths(&mut self) -> Result<Vec<Link>, Error> {
        unreachable!("host-local asks for no link")
    }

    fn port_vlans(&mut self, _index: u32) -> Result<Vec<BridgeVlan>, Error> {
        unreachable!("host-local asks for no VLANs")
    }

    fn routes(&mut self, _ns: Ns, _family: Family, _table: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        unreachable!("host-local asks for no route")
    }

    fn route_link(&mut self, _address: IpAddr) -> Result<Option<Link>, Error> {
        unreachable!("host-local asks for no route")
    }

    fn sysctl(&mut self, _ns: Ns, _key: &Sysctl) -> Result<Option<String>, Error> {
        unreachable!("host-local asks for no kernel parameter")
    }

    fn netfilter(&mut self, _ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        unreachable!("host-local has no rules")
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        unreachable!("host-local has no rules")
    }

    fn address_keepers(&mut self, _address: IpAddr) -> Result<Vec<Keeper>, Error> {
        unreachable!("host-local has no rules")
    }

    fn address_owner(&mut self, _address: IpAddr) -> Result<Option<Attachment>, Error> {
        unreachable!("host-local has no rules")
    }

    fn addresses_owned_by(&mut self, _owner: &Attachment) -> Result<Vec<IpAddr>, Error> {
        unreachable!("host-local has no rules")
    }

    fn addresses_owned_in(&mut self, _network: &NetworkName) -> Result<Vec<(IpAddr, Attachment)>, Error> {
        unreachable!("host-local has no rules")
    }

    fn apply(&mut self, _step: &Step) -> Result<Option<Step>, Error> {
        unreachable!("host-local changes nothing in the kernel")
    }

    fn delegate(&mut self, _plugin: &str, _command: Command) -> Result<Vec<u8>, Error> {
        unreachable!("host-local delegates nothing")
    }

    fn random(&mut self) -> Result<[u8; 8], Error> {
        unreachable!("host-local needs no random bytes")
    }
}
