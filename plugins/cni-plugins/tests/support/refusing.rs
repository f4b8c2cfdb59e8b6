//! A host that refuses one change, and passes everything else on to the real one.

use std::path::Path;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Command;
use cni_linux::host::LinuxHost;
use cni_model::daemon::{DaemonCall, DaemonError, Patience};
use cni_model::link::{Address, KernelRoute, Link, OtherEnd};
use cni_model::netns::NetnsError;
use cni_model::netns::{NamespaceNumber, NumberedLink, Occupancy};
use cni_model::plan::{Ns, Step, Sysctl};
use cni_model::routing::{FullRoute, KernelRule};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::devices::Devices;
use cni_plugin::host::{Host, LinkQuery, NetworkState, Storage};
use cni_plugin::lock::LockName;
use cni_plugin::namespace_state::NamespaceState;
use cni_plugin::records::Records;

use crate::Refused;

/// The real host behind one refusal.
pub struct RefusingHost {
    host: LinuxHost,
    before_refusal: Option<usize>,
}

impl RefusingHost {
    /// Refuses the change of a number, counted from zero; delegating ADD is a change as well.
    pub fn new(host: LinuxHost, refused: usize) -> Self {
        Self { host, before_refusal: Some(refused) }
    }

    fn count(&mut self, step: &dyn Fn() -> String) -> Result<(), Refused> {
        match self.before_refusal {
            Some(0) => {
                self.before_refusal = None;
                Err(Refused { step: step() })
            }
            Some(before) => {
                self.before_refusal = Some(before - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl NetworkState for RefusingHost {
    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        self.host.links(ns, query)
    }

    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error> {
        self.host.has_link_kind(kind)
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        self.host.addresses(ns, index, family)
    }

    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error> {
        self.host.peer_addresses(link)
    }

    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error> {
        self.host.other_end(ns, link)
    }

    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        self.host.routes(ns, family, table)
    }

    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        self.host.port_vlans(ns, index)
    }

    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error> {
        self.host.full_routes(ns, family, table)
    }

    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error> {
        self.host.rules(ns, family)
    }

    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error> {
        self.host.traffic_control(ns, index)
    }

    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error> {
        self.host.missing_redirect_part()
    }
}

impl NamespaceState for RefusingHost {
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error> {
        self.host.identity(ns)
    }

    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error> {
        self.host.number_container()
    }

    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error> {
        self.host.numbered_link(number, index)
    }

    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error> {
        self.host.numbered_addresses(number)
    }

    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error> {
        self.host.path_by_process(identity)
    }

    fn occupancy(&mut self, number: i32, index: u32) -> Result<Occupancy, Error> {
        self.host.occupancy(number, index)
    }
}

impl Storage for RefusingHost {
    fn records(&mut self) -> &mut dyn Records {
        self.host.records()
    }

    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error> {
        self.host.administrators_file(path)
    }

    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError> {
        self.host.state_file(file)
    }

    fn lock(&mut self, name: &LockName) -> Result<(), Error> {
        self.host.lock(name)
    }
}

impl Host for RefusingHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        self.host.enter(path)
    }

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        self.host.is_own_netns(path)
    }

    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error> {
        self.host.leads_to_container(path)
    }

    fn effective_ids(&mut self) -> (u32, u32) {
        self.host.effective_ids()
    }

    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        self.host.sysctl(ns, key)
    }

    fn devices(&mut self) -> &mut dyn Devices {
        self.host.devices()
    }

    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        self.host.netfilter(ns)
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        self.host.firewalld()
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        self.count(&|| step.to_string())?;
        self.host.apply(step)
    }

    fn delegate(&mut self, plugin: &str, command: Command) -> Result<Vec<u8>, Error> {
        if command == Command::Add {
            self.count(&|| format!("delegate ADD to {plugin}"))?;
        }
        self.host.delegate(plugin, command)
    }

    fn ask_daemon(&mut self, call: &DaemonCall, patience: Patience<'_>) -> Result<Vec<u8>, DaemonError> {
        self.host.ask_daemon(call, patience)
    }

    fn random(&mut self) -> Result<[u8; 8], Error> {
        self.host.random()
    }
}
