//! The seam between deciding and doing: what a plugin may ask of, and have done to, the machine.
//!
//! `cni-linux` implements [`Host`] with netlink, `/proc`, processes and files. Everything above it is pure.

use std::net::IpAddr;
use std::path::Path;

use crate::devices::Devices;
use crate::lock::LockName;
use crate::namespace_state::NamespaceState;
use crate::records::Records;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Command;
use cni_model::daemon::{DaemonCall, DaemonError, Patience};
use cni_model::link::{Address, KernelRoute, Link, OtherEnd};
use cni_model::netns::NetnsError;
use cni_model::plan::{Ns, Plan, Step, Sysctl};
use cni_model::routing::{FullRoute, KernelRule};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;

/// Which links are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkQuery<'a> {
    /// The one of a name.
    Name(&'a IfName),
    /// The one that has this name or, as `ip link property` gives them, this alternative name. It need not be any.
    Called(&'a str),
    /// The one of an index.
    Index(u32),
    /// All of them, which costs time for each on the machine.
    All,
    /// Those of a kind, by the kernel's word, such as `veth`.
    Kind(&'static str),
    /// The one by which packets to an address leave.
    Towards(IpAddr),
    /// The one by which the route to exactly this address leaves, and not that to a network which it is in.
    RouteTo(IpAddr),
    /// One of the links of a kind whose master is that of an index, if any is seen: where the master is, and in every
    /// namespace that has a number there. One that holds an ipvlan of ours has.
    ChildOf {
        /// The index of the master.
        master: u32,
        /// The kernel's word for the kind, such as `ipvlan`.
        kind: &'static str,
    },
    /// The other end of a veth whose one end, this link, is in the other one of the two namespaces. The kernel says so
    /// of both ends: a container chooses the indices of its links, and so what an index alone seems to lead to.
    PeerOf(&'a Link),
}

/// What the kernel knows of links, addresses and routes.
pub trait NetworkState {
    /// The links that a question is about; none when there is no such one.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error>;

    /// Whether the kernel can make links of a kind, by its own word, such as `dummy`; it loads their module if it has to. No
    /// link is made.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error>;

    /// The addresses of a link, or of all links, IPv4 first.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error>;

    /// The addresses of the other end of a veth of the host, whatever namespace that one is in; `None` when it is in the
    /// host's own, or when its namespace has lost its last user, so that the kernel is about to remove both ends.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error>;

    /// Returns where a link leads, in the numbers of the host; `None` when it leads nowhere, or no further than its own
    /// container.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error>;

    /// The VLANs of a bridge's port; none for a link that is no port.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error>;

    /// The traffic control of a link.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error>;

    /// The first part that the kernel lacks to redirect packets from one link to another; it loads modules if it has to. It is
    /// tried in a namespace that nobody else sees.
    ///
    /// # Errors
    /// When no namespace can be made.
    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error>;

    /// The routes of a family: of one table, or of all.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error>;

    /// The unicast routes of a family in one table, with everything that the kernel holds of them.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error>;

    /// The rules by which the kernel chooses a table for a packet of a family, in order.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error>;
}

/// What lies on the disk of the host.
pub trait Storage {
    /// What plugins have recorded.
    fn records(&mut self) -> &mut dyn Records;

    /// What a file says that the administrator may have written; `None` when there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read, or is no text.
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error>;

    /// What a state file says, with bytes that are no text replaced; `None` when there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read, or is not root's own: a link, or another user's.
    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError>;

    /// Takes a lock, which is held until the host is dropped. Processes of one machine exclude each other so.
    ///
    /// # Errors
    /// When it does not become free within ten seconds.
    fn lock(&mut self, name: &LockName) -> Result<(), Error>;
}

/// The machine, as far as a plugin is concerned.
pub trait Host: NetworkState + NamespaceState + Storage {
    /// Opens the container's namespace; [`Ns::Container`] means it from then on.
    ///
    /// # Errors
    /// [`NetnsError::Gone`] when there is none; DEL does not fail for that.
    fn enter(&mut self, path: &str) -> Result<(), NetnsError>;

    /// Whether a path leads to the namespace that the plugin itself is in. A path that cannot be opened does not.
    ///
    /// # Errors
    /// When the plugin's own namespace cannot be identified.
    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error>;

    /// Whether a path leads to the container's namespace, which was entered. A path that cannot be opened does not.
    ///
    /// # Errors
    /// When none was entered, or it does not answer.
    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error>;

    /// The user and the group that the plugin runs as.
    fn effective_ids(&mut self) -> (u32, u32);

    /// The value of a kernel parameter, without white space around it; `None` when the kernel does not have it.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error>;

    /// What the kernel tells of devices.
    fn devices(&mut self) -> &mut dyn Devices;

    /// The packet filter of a namespace.
    ///
    /// # Errors
    /// When it is the container's, and that was not entered.
    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error>;

    /// The host's firewalld.
    fn firewalld(&mut self) -> &mut dyn Firewalld;

    /// Carries out a step. Returns the step that undoes it where [`Step::inverse`] cannot know it.
    ///
    /// # Errors
    /// Then nothing of the step is left.
    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error>;

    /// Runs a delegated plugin with the request's input and environment, in which only the command differs; returns
    /// what it printed.
    ///
    /// # Errors
    /// The delegate's own error, or why it could not run.
    fn delegate(&mut self, plugin: &str, command: Command) -> Result<Vec<u8>, Error>;

    /// Asks a daemon of ours, and returns its last answer. Of each answer `patience` tells whether it is the last.
    ///
    /// # Errors
    /// [`DaemonError`]
    fn ask_daemon(&mut self, call: &DaemonCall, patience: Patience<'_>) -> Result<Vec<u8>, DaemonError>;

    /// Four unpredictable bytes and four more.
    ///
    /// # Errors
    /// When the kernel gives none.
    fn random(&mut self) -> Result<[u8; 8], Error>;
}

/// Questions and work that come down to those of [`Host`].
impl dyn Host + '_ {
    /// The link of a name; `None` when there is none.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn link(&mut self, ns: Ns, name: &IfName) -> Result<Option<Link>, Error> {
        Ok(self.links(ns, LinkQuery::Name(name))?.pop())
    }

    /// The link of an index; `None` when there is none.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn link_by_index(&mut self, ns: Ns, index: u32) -> Result<Option<Link>, Error> {
        Ok(self.links(ns, LinkQuery::Index(index))?.pop())
    }

    /// The link by which packets to an address leave; `None` when there is no route.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn link_towards(&mut self, ns: Ns, address: IpAddr) -> Result<Option<Link>, Error> {
        Ok(self.links(ns, LinkQuery::Towards(address))?.pop())
    }

    /// Carries out the steps of a plan, up to the first that fails. Nothing is taken back; for that there is the
    /// [`Journal`](crate::journal::Journal).
    ///
    /// # Errors
    /// That of the step.
    pub fn carry_out(&mut self, plan: &Plan) -> Result<(), Error> {
        plan.steps().iter().try_for_each(|(_, step)| self.apply(step).map(|_| ()))
    }
}
