//! The trait between decisions and effects: the questions and steps that a plugin can send to the machine.
//!
//! `cni-linux` implements [`Host`] with netlink, `/proc`, processes and files. Everything above it is pure.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::{Command, Request};
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, Link};
use cni_model::netns::{NetnsError, NetnsView};
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
    /// The one that has this name, or this alternative name (`ip link property`). Any text is allowed.
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
    /// One of the links of a kind whose master has this index, if one is visible: in the master's namespace, and in
    /// every namespace that has a number there. A namespace with an ipvlan of these plugins has one.
    ChildOf {
        /// The index of the master.
        master: u32,
        /// The kernel's word for the kind, such as `ipvlan`.
        kind: &'static str,
    },
    /// The other end of a veth whose one end, this link, is in the other of the two namespaces. The kernel must confirm
    /// both ends: a container chooses the indices of its links, so an index alone proves nothing.
    PeerOf(&'a Link),
}

/// The machine, as a plugin sees it. Topics that few plugins ask about have traits of their own.
pub trait Host {
    /// Opens the container's namespace; [`Ns::Container`] means it from then on.
    ///
    /// # Errors
    /// [`NetnsError::Gone`] if the path leads to no namespace. DEL does not fail for that.
    fn enter(&mut self, path: &str) -> Result<(), NetnsError>;

    /// Whether a path leads to the namespace of the plugin itself. A path that cannot be opened does not.
    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error>;

    /// Returns the links that a query selects.
    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error>;

    /// The addresses of a link, or of all links, IPv4 first. A link that does not exist has none.
    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error>;

    /// Routes and rules.
    fn routing(&mut self) -> &mut dyn Routing;

    /// Questions about devices.
    fn devices(&mut self) -> &mut dyn Devices;

    /// Questions about network namespaces.
    fn namespaces(&mut self) -> &mut dyn NamespaceState;

    /// Records of the plugins.
    fn records(&mut self) -> &mut dyn Records;

    /// Questions about files.
    fn files(&mut self) -> &mut dyn Files;

    /// Takes a lock, which is held until the host is dropped. Processes of one machine exclude each other so.
    ///
    /// # Errors
    /// When it does not become free within ten seconds.
    fn lock(&mut self, name: &LockName) -> Result<(), Error>;

    /// The packet filter of a namespace.
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
    fn delegate(&mut self, plugin: &str, command: Command, other: Option<&Request>) -> Result<Vec<u8>, Error>;

    /// Asks a plugin's daemon, and returns its last answer. Given an answer, `patience` tells how long to wait for the
    /// next, or that it is the last.
    fn ask_daemon(&mut self, call: &DaemonCall, patience: AnswerTimeout<'_>) -> Result<Vec<u8>, DaemonError>;

    /// Eight bytes that nobody can guess.
    fn random(&mut self) -> [u8; 8];
}

/// Questions and work that come down to those of [`Host`].
impl dyn Host + '_ {
    /// Looks up a link by its name. Returns `None` if it does not exist.
    pub fn link(&mut self, ns: Ns, name: &IfName) -> Result<Option<Link>, Error> {
        Ok(self.links(ns, LinkQuery::Name(name))?.pop())
    }

    /// Looks up a link by its index. Returns `None` if it does not exist.
    pub fn link_by_index(&mut self, ns: Ns, index: u32) -> Result<Option<Link>, Error> {
        Ok(self.links(ns, LinkQuery::Index(index))?.pop())
    }

    /// The link through which packets to an address leave; `None` without a route.
    pub fn link_towards(&mut self, ns: Ns, address: IpAddr) -> Result<Option<Link>, Error> {
        Ok(self.links(ns, LinkQuery::Towards(address))?.pop())
    }

    /// Opens the container's namespace as [`Host::enter`] does. Returns whether the path leads to one.
    pub fn enter_if_exists(&mut self, path: &str) -> Result<bool, Error> {
        match self.enter(path) {
            Ok(()) => Ok(true),
            Err(NetnsError::Gone { .. }) => Ok(false),
            Err(error @ NetnsError::Failed { .. }) => Err(error.into()),
        }
    }

    /// Enters a namespace of a survey by the first of its paths that still leads there. Returns that path; `None` if there is
    /// none by now.
    pub fn enter_view<'v>(&mut self, view: &'v NetnsView) -> Result<Option<&'v str>, Error> {
        for path in &view.paths {
            if self.enter_if_exists(path)? && self.namespaces().identity(Ns::Container)? == view.identity {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Does work that may enter other namespaces. Afterwards the same one is entered as before, even if the work fails.
    pub fn elsewhere<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.namespaces().keep();
        let done = work(self);
        self.namespaces().back();
        done
    }

    /// Carries out the steps of a plan, up to the first that fails. It undoes nothing; the
    /// [`Journal`](crate::journal::Journal) does.
    pub fn carry_out(&mut self, plan: &Plan) -> Result<(), Error> {
        plan.steps().iter().try_for_each(|(_, step)| self.apply(step).map(|_| ()))
    }
}
