//! A whole machine in memory that implements [`Host`].
//!
//! A step is carried out on a copy of the kernel, which replaces the kernel only if all of the step succeeds. The
//! packet filters do the same themselves. Every step is remembered as text. One step, or ADD of a delegate, can be
//! made to fail; everything after it, such as the undo, succeeds again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::{Command, Request};
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, Link};
use cni_model::netns::NetnsError;
use cni_model::plan::{Ns, Step};
use cni_model::traffic::RedirectPart;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::devices::Devices;
use cni_plugin::files::Files;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::lock::LockName;
use cni_plugin::namespace_state::NamespaceState;
use cni_plugin::records::Records;
use cni_plugin::routing::Routing;

use crate::daemon::FakeDaemon;
use crate::devices::FakeDevices;
use crate::firewalld::FakeFirewalld;
use crate::netfilter::FakeNetfilter;
use crate::records::FakeRecords;

mod apply;
mod child;
mod container;
mod delegate;
mod devices;
mod failure;
mod files;
mod ipam;
mod kernel;
mod kernel_error;
mod namespaces;
mod route;
mod routing;
mod setup;
mod traffic;
mod vlan;

pub use container::FakeContainer;

use ipam::FakeIpam;
use kernel::{Kernel, Space};
use kernel_error::refuse;

/// The error of the step that is made to fail.
pub const REFUSAL: &str = "refused by the test";

/// A machine in memory.
#[derive(Debug, Default)]
pub struct FakeHost {
    /// The host's packet filter.
    pub netfilter: FakeNetfilter,
    /// The host's firewalld.
    pub firewalld: FakeFirewalld,
    /// The records of plugins.
    pub records: FakeRecords,
    /// The files that plugins have written for their DEL, by path.
    pub state_files: BTreeMap<PathBuf, String>,
    /// The files that the administrator has written.
    pub administrators_files: BTreeMap<PathBuf, String>,
    /// The state files and kernel parameters, by path, that cannot be read.
    pub unreadable: BTreeSet<String>,
    /// What a survey of the namespaces cannot see.
    pub unseen: Option<String>,
    /// The daemon of a plugin.
    pub daemon: FakeDaemon,
    /// The devices below `/sys`.
    pub devices: FakeDevices,
    kernel: Kernel,
    absent_kind: Option<&'static str>,
    absent_part: Option<RedirectPart>,
    entered: Option<Entered>,
    kept: Vec<Option<Entered>>,
    ipam: FakeIpam,
    applied: Vec<String>,
    forgotten: Vec<String>,
    failing: Option<usize>,
    interference: Option<Interference>,
    drawn: u64,
    locks: Vec<LockName>,
    is_locked: bool,
}

/// The words in the text of a step, and what is done before it.
type Interference = (&'static str, fn(&mut FakeHost));

/// The container's side, once it was entered.
#[derive(Debug)]
struct Entered {
    space: Space,
    netfilter: FakeNetfilter,
}

impl FakeHost {
    /// A host with its loopback interface, and no container.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of batches and of listings of iptables that some work needs; each may be a process.
    pub fn iptables_cost(&mut self, work: impl FnOnce(&mut Self)) -> (usize, usize) {
        let before = (self.netfilter.iptables.commits(), self.netfilter.iptables.lists());
        work(self);
        (self.netfilter.iptables.commits() - before.0, self.netfilter.iptables.lists() - before.1)
    }

    /// Adds a container at a path, or sets its state.
    #[must_use]
    pub fn with_container(mut self, path: &str, container: FakeContainer) -> Self {
        self.set_container(path, container);
        self
    }

    /// Adds a container at a path, or sets its state; the interfaces of a missing one are deleted.
    pub fn set_container(&mut self, path: &str, container: FakeContainer) {
        self.kernel.set_container(path, container);
    }

    /// The kernel parameters of the host that steps have written, each as `path=value`, in order.
    pub fn parameters(&self) -> Vec<String> {
        let written = self.kernel.parameters.iter().filter(|((space, _), _)| *space == Space::host());
        written.map(|((_, path), value)| format!("{path}={value}")).collect()
    }

    /// Every step that was tried, as text, and every delegated ADD.
    pub fn applied(&self) -> &[String] {
        &self.applied
    }

    /// Forgets which steps were tried and which connections were to be forgotten.
    pub fn clear_log(&mut self) {
        self.applied.clear();
        self.forgotten.clear();
    }

    /// The connections that were to be forgotten.
    pub fn forgotten(&self) -> &[String] {
        &self.forgotten
    }

    /// The packet filter of the container that was entered last.
    ///
    /// # Panics
    /// When none was.
    pub fn container_netfilter(&mut self) -> &mut FakeNetfilter {
        &mut self.entered.as_mut().expect("a container was entered").netfilter
    }

    /// Everything on the machine that a plugin can change, one line for each thing, in order. The value of a kernel
    /// parameter is included unless it is the initial one.
    pub fn state(&self) -> Vec<String> {
        let mut lines = self.kernel.lines();
        lines.extend(self.netfilter.dump().lines().map(str::to_owned));
        let inside = self.entered.iter().map(|entered| entered.netfilter.dump()).collect::<String>();
        lines.extend(inside.lines().map(|line| format!("container {line}")));
        lines.extend(self.firewalld.sources().into_iter().map(|source| format!("firewalld {source}")));
        lines.extend(self.records.lines().into_iter().map(|record| format!("record {record}")));
        lines.extend(self.state_files.iter().map(|(path, text)| format!("file {} {text:?}", path.display())));
        lines.extend(self.daemon.lines().into_iter().map(|line| format!("daemon {line}")));
        lines.extend(self.ipam.leases.iter().map(|answer| format!("lease {answer}")));
        lines
    }

    /// The locks that were asked for.
    pub fn locks(&self) -> &[LockName] {
        &self.locks
    }

    /// Lets others hold every lock.
    pub const fn hold_locks(&mut self) {
        self.is_locked = true;
    }

    fn space(&self, ns: Ns) -> Result<Space, Error> {
        match (ns, &self.entered) {
            (Ns::Host, _) => Ok(Space::host()),
            (Ns::Container, Some(entered)) => Ok(entered.space.clone()),
            (Ns::Container, None) => refuse("the container's network namespace is not open"),
        }
    }
}

impl Host for FakeHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        match self.kernel.container(path) {
            FakeContainer::Present(_) => {
                let (space, netfilter) = (Space::container(path), FakeNetfilter::default());
                let again = self.entered.take().filter(|entered| entered.space == space);
                self.entered = Some(again.unwrap_or(Entered { space, netfilter }));
                Ok(())
            }
            FakeContainer::Gone | FakeContainer::Unnamed => {
                Err(NetnsError::Gone { path: path.to_owned(), reason: "not there".to_owned() })
            }
            FakeContainer::Closed => {
                let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
                Err(NetnsError::Failed { path: path.to_owned(), source })
            }
        }
    }

    fn is_own_netns(&mut self, _path: &str) -> Result<bool, Error> {
        Ok(false)
    }

    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        let space = self.space(ns)?;
        Ok(match query {
            LinkQuery::Name(name) => self.kernel.links(&space, |link| link.name == name.as_str()),
            LinkQuery::Called(name) => self.kernel.links(&space, |link| link.name == name),
            LinkQuery::Index(index) => self.kernel.links(&space, |link| link.index == index),
            LinkQuery::All => self.kernel.links(&space, |_| true),
            LinkQuery::Kind(kind) => self.kernel.links(&space, |link| link.kind.as_deref() == Some(kind)),
            LinkQuery::Towards(address) => match self.kernel.output(&space, address) {
                Some(index) => self.kernel.links(&space, |link| link.index == index),
                None => Vec::new(),
            },
            LinkQuery::RouteTo(address) => match self.kernel.exact_output(&space, address) {
                Some(index) => self.kernel.links(&space, |link| link.index == index),
                None => Vec::new(),
            },
            LinkQuery::ChildOf { master, kind } => self.kernel.children(&space, master, kind),
            LinkQuery::PeerOf(link) => {
                let other = self.space(if ns == Ns::Host { Ns::Container } else { Ns::Host })?;
                self.kernel.peer_of(&space, (&other, link))
            }
        })
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        let space = self.space(ns)?;
        let links = self.kernel.entries(&space).filter(|entry| index.is_none_or(|index| entry.link.index == index));
        let mut found: Vec<Address> = links.flat_map(|entry| entry.addresses.clone()).collect();
        found.retain(|address| family.is_none_or(|family| address.cidr.family() == family));
        found.sort_by_key(|address| address.cidr.family());
        Ok(found)
    }

    fn routing(&mut self) -> &mut dyn Routing {
        self
    }

    fn devices(&mut self) -> &mut dyn Devices {
        self
    }

    fn namespaces(&mut self) -> &mut dyn NamespaceState {
        self
    }

    fn records(&mut self) -> &mut dyn Records {
        &mut self.records
    }

    fn files(&mut self) -> &mut dyn Files {
        self
    }

    fn lock(&mut self, name: &LockName) -> Result<(), Error> {
        self.locks.push(name.clone());
        if self.is_locked { refuse("gave up after 10s: the lock is held") } else { Ok(()) }
    }

    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        match (ns, &mut self.entered) {
            (Ns::Host, _) => Ok(&mut self.netfilter),
            (Ns::Container, Some(entered)) => Ok(&mut entered.netfilter),
            (Ns::Container, None) => refuse("the container's network namespace is not open"),
        }
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        &mut self.firewalld
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        let text = step.to_string();
        if let Some((_, interfere)) = self.interference.take_if(|(words, _)| text.contains(*words)) {
            interfere(self);
        }
        self.count(text)?;
        self.carry_out_step(step)
    }

    fn delegate(&mut self, plugin: &str, command: Command, other: Option<&Request>) -> Result<Vec<u8>, Error> {
        self.call_delegate(plugin, command, other)
    }

    fn ask_daemon(&mut self, call: &DaemonCall, _patience: AnswerTimeout<'_>) -> Result<Vec<u8>, DaemonError> {
        let refused = |_| DaemonError::Lost { socket: call.socket.clone(), source: std::io::Error::other(REFUSAL) };
        self.count(call.to_string()).map_err(refused)?;
        self.daemon.answer(call)
    }

    /// Never the same twice.
    fn random(&mut self) -> Result<[u8; 8], Error> {
        self.drawn += 1;
        Ok(self.drawn.to_le_bytes())
    }
}

#[cfg(test)]
mod tests;
