//! The seam between deciding and doing: what a plugin may ask of, and have done to, the machine.
//!
//! `cni-linux` implements [`Host`] with netlink, `/proc`, processes and files. Everything above it is pure.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::{Command, Request};
use cni_model::daemon::{DaemonCall, DaemonError, Patience};
use cni_model::link::{Address, Link};
use cni_model::netns::NetnsError;
use cni_model::plan::{Ns, Plan, Step};
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;

use crate::devices::Devices;
use crate::files::Files;
use crate::lock::LockName;
use crate::namespace_state::NamespaceState;
use crate::records::Records;
use crate::routing::Routing;

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

/// The machine, as far as a plugin is concerned. Topics that few plugins ask about have traits of their own.
pub trait Host {
    /// Opens the container's namespace; [`Ns::Container`] means it from then on.
    ///
    /// # Errors
    /// [`NetnsError::Gone`] if the path leads to no namespace. DEL does not fail for that.
    fn enter(&mut self, path: &str) -> Result<(), NetnsError>;

    /// Whether a path leads to the namespace that the plugin itself is in. A path that cannot be opened does not.
    ///
    /// # Errors
    /// When the plugin's own namespace cannot be identified.
    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error>;

    /// The links that a question is about; none when there is no such one.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error>;

    /// The addresses of a link, or of all links, IPv4 first.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error>;

    /// Routes and rules.
    fn routing(&mut self) -> &mut dyn Routing;

    /// What the kernel says of devices.
    fn devices(&mut self) -> &mut dyn Devices;

    /// What the kernel knows of network namespaces.
    fn namespaces(&mut self) -> &mut dyn NamespaceState;

    /// What plugins have recorded.
    fn records(&mut self) -> &mut dyn Records;

    /// What files say.
    fn files(&mut self) -> &mut dyn Files;

    /// Takes a lock, which is held until the host is dropped. Processes of one machine exclude each other so.
    ///
    /// # Errors
    /// When it does not become free within ten seconds.
    fn lock(&mut self, name: &LockName) -> Result<(), Error>;

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

    /// Runs a delegated plugin with the input and the environment of the host's request, or of another one if it is given; only
    /// the command differs. Returns what it printed.
    ///
    /// # Errors
    /// The delegate's own error, or why it could not run.
    fn delegate(&mut self, plugin: &str, command: Command, other: Option<&Request>) -> Result<Vec<u8>, Error>;

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
    /// Looks up a link by its name. Returns `None` if there is no such link.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn link(&mut self, ns: Ns, name: &IfName) -> Result<Option<Link>, Error> {
        Ok(self.links(ns, LinkQuery::Name(name))?.pop())
    }

    /// Looks up a link by its index. Returns `None` if there is no such link.
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
