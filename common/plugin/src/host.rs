//! The trait between decisions and effects: the questions and steps that a plugin can send to the machine.
//!
//! `cni-linux` implements [`Host`] with netlink, `/proc`, processes and files. Everything above it is pure.

use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::{Command, Request};
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, KernelRoute, Link, OtherEnd};
use cni_model::netns::{NamespaceNumber, NetnsError, NetnsView, NumberedLink, Occupancy};
use cni_model::plan::{Ns, Plan, Step, Sysctl};
use cni_model::routing::{FullRoute, KernelRule};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;

use crate::ledger::Ledger;
use crate::lock::LockName;

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
    fn ledger(&mut self) -> &mut dyn Ledger;

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

/// Questions about the routing of packets.
pub trait Routing {
    /// The routes of a family: of one table, or of all.
    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error>;

    /// The unicast routes of a family in one table, with everything that the kernel holds of them.
    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error>;

    /// The rules by which the kernel chooses a table for a packet of a family, in order.
    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error>;
}

/// Questions about devices, each used by one or two plugins only.
pub trait Devices {
    /// Lists the names in a directory of `/sys` or `/dev`, in order; `None` if the directory is missing.
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error>;

    /// Returns the last part of a symbolic link's target, which for `driver` is the driver's name; `None` if the link
    /// is missing.
    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error>;

    /// Whether the kernel can create links of a kind, such as `dummy`; it loads the module if needed. No link is
    /// created.
    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error>;

    /// Returns where a link leads, in the numbers of the host; `None` when it leads nowhere, or no further than its own
    /// container.
    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error>;

    /// The VLANs of a bridge's port; none for a link that is no port.
    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error>;

    /// The traffic control of a link.
    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error>;

    /// Returns the first part that the kernel lacks for redirecting packets between links; it loads modules if needed.
    /// It is tried in a namespace of its own.
    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error>;
}

/// Questions about the namespaces of containers.
pub trait NamespaceState {
    /// A unique identifier of the namespace, never reused, not even after a reboot; `None` if the kernel has none
    /// (before Linux 5.14).
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error>;

    /// Whether a path leads to the container's namespace, which was entered. A path that cannot be opened does not.
    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error>;

    /// Sets the entered namespace aside, until [`NamespaceState::back`].
    fn keep(&mut self);

    /// Enters the namespace again that was set aside last, by its descriptor: its path may lead elsewhere by now.
    fn back(&mut self);

    /// Gives the container's namespace a number in the host's, unless it has one, and returns it. A kernel that has no
    /// answer gives `None`.
    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error>;

    /// Looks up the link of an index in the namespace of a number.
    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error>;

    /// Lists the links in the namespace of a number; `None` when no living namespace has it.
    fn numbered_links(&mut self, number: i32) -> Result<Option<Vec<Link>>, Error>;

    /// Lists the addresses in the namespace of a number; `None` when no living namespace has it.
    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error>;

    /// The addresses of the other end of a veth of the host, in any namespace; `None` if that end is in the host's own
    /// namespace, or if its namespace has lost its last user, so that the kernel is about to delete both ends.
    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error>;

    /// A path to the namespace of an identity through a process in it, even if the namespace has no name; `None` if it
    /// has no process.
    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error>;

    /// Looks for a process in the namespace of a number, in which a link has this index.
    fn occupancy(&mut self, number: i32, index: u32) -> Result<Occupancy, Error>;

    /// Looks for links of a kind, or for hardware, in every network namespace of the machine that a thread is in or a process
    /// holds open, or that is mounted. Namespaces without such links are missing, as are those that cannot be seen within a
    /// time limit. Addresses are not listed. The machine is looked at once: later answers are the same.
    fn survey(&mut self, kind: Option<&str>) -> Rc<[NetnsView]>;

    /// What a survey of links of this kind could not see; `None` if it has seen all, or was not made.
    fn unseen(&mut self, kind: Option<&str>) -> Option<String>;
}

/// Files of the administrator, of plugins, and of the kernel.
pub trait Files {
    /// Reads a file that the administrator may have written. Returns `None` if it is missing.
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error>;

    /// Reads a state file. Bytes that are not UTF-8 are replaced. Returns `None` if it is missing.
    ///
    /// # Errors
    /// If it exists and cannot be read, or is not root's own file: a link, or another user's.
    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError>;

    /// Lists the names in a directory of state files, in order; empty if the directory is missing.
    fn state_file_names(&mut self, directory: &Path) -> Result<Vec<String>, Error>;

    /// The value of a kernel parameter, without white space around it; `None` when the kernel does not have it.
    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error>;

    /// The user and the group with whose permissions the plugin reads them.
    fn effective_ids(&mut self) -> (u32, u32);
}
