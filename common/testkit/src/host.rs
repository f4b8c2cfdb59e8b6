//! A whole machine in memory that implements [`Host`].
//!
//! A step is carried out on a copy of the kernel, which replaces the kernel only if all of the step succeeds. The
//! packet filters do the same themselves. Every step is remembered as text. One step, or ADD of a delegate, can be
//! made to fail; everything after it, such as the undo, succeeds again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::{Command, Request};
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, KernelRoute, Link, OtherEnd};
use cni_model::netns::NetnsError;
use cni_model::netns::{NamespaceNumber, NetnsView, NumberedLink, Occupancy};
use cni_model::plan::{Ns, Step, Sysctl};
use cni_model::routing::{FullRoute, KernelRule};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_model::traffic::{RedirectPart, RootQdisc, TrafficControl};
use cni_model::vlan::BridgeVlan;
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
mod kernel;
mod kernel_error;
mod route;
mod routing;
mod traffic;
mod vlan;

pub use container::FakeContainer;

use kernel::{Kernel, Space};
use kernel_error::refuse;

/// The error of the step that is made to fail.
pub const REFUSAL: &str = "refused by the test";

/// A step that is made to fail.
#[derive(Debug, thiserror::Error)]
#[error("{REFUSAL}: {step}")]
struct RefusedStep {
    step: String,
}

impl Failure for RefusedStep {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

/// A delegated plugin that says it has failed.
#[derive(Debug, thiserror::Error)]
#[error("{plugin} has failed")]
struct DelegateFailed {
    plugin: String,
    code: u32,
}

impl Failure for DelegateFailed {
    fn code(&self) -> Code {
        Code::Delegated(self.code)
    }
}

/// The answers of the IPAM plugin.
#[derive(Clone, Debug, Default)]
struct FakeIpam {
    answer: String,
    /// The answers that ADD has given and DEL has not taken back.
    leases: BTreeSet<String>,
    /// The command that fails, and the code of its error.
    failing: Option<(Command, u32)>,
    calls: Vec<String>,
}

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
    own_netns: Option<String>,
    ipam: FakeIpam,
    inputs: Vec<String>,
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

    /// Says which path leads to the plugin's own namespace.
    pub fn set_own_netns(&mut self, path: &str) {
        self.own_netns = Some(path.to_owned());
    }

    /// Lets every IPAM plugin answer ADD with this result, as JSON, and release its addresses on DEL.
    #[must_use]
    pub fn with_ipam(mut self, answer: &str) -> Self {
        self.set_ipam(answer);
        self
    }

    /// Lets every IPAM plugin answer ADD with this result from now on: the calls that come are another
    /// container's.
    pub fn set_ipam(&mut self, answer: &str) {
        answer.clone_into(&mut self.ipam.answer);
    }

    /// Lets the IPAM plugin fail at a command, or at none.
    pub fn fail_delegate(&mut self, command: Option<Command>) {
        self.ipam.failing = command.map(|command| (command, 100));
    }

    /// Lets the IPAM plugin fail at a command with an error of this code.
    pub fn fail_delegate_with(&mut self, command: Command, code: Code) {
        self.ipam.failing = Some((command, code.number()));
    }

    /// The calls of plugins with a configuration of their own, as `plugin COMMAND configuration`.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// The calls of delegates, as `plugin COMMAND`.
    pub fn delegated(&self) -> &[String] {
        &self.ipam.calls
    }

    /// Adds a link that existed before any plugin ran. The machine chooses its index.
    pub fn add_link(&mut self, ns: Ns, link: Link) -> u32 {
        let space = self.space(ns).expect("the namespace was entered");
        self.kernel.add(&space, link)
    }

    /// Adds an address to an existing link.
    pub fn add_address(&mut self, ns: Ns, name: &str, address: Address) {
        let space = self.space(ns).expect("the namespace was entered");
        self.kernel.find_mut(&space, name).expect("a link").addresses.push(address);
    }

    /// Moves a link on from the container that was entered to another one, as root in a container may.
    pub fn move_on(&mut self, name: &str, to: &str) {
        let from = self.space(Ns::Container).expect("the namespace was entered");
        let name = IfName::parse(name).expect("a name");
        self.kernel.relocate(&from, &Space::container(to), name.as_str(), &name);
    }

    /// Changes a link behind the back of the plugins.
    pub fn change_link(&mut self, ns: Ns, name: &str, change: impl FnOnce(&mut Link)) {
        let space = self.space(ns).expect("the namespace was entered");
        change(&mut self.kernel.find_mut(&space, name).expect("a link").link);
    }

    /// Gives a link a queueing discipline, as an administrator does.
    pub fn set_root_qdisc(&mut self, ns: Ns, name: &str, qdisc: RootQdisc) {
        let space = self.space(ns).expect("the namespace was entered");
        self.kernel.find_mut(&space, name).expect("a link").root_qdisc = Some(qdisc);
    }

    /// Takes a kind of links away, as on a kernel that does not have them.
    #[must_use]
    pub fn without_link_kind(mut self, kind: &'static str) -> Self {
        self.absent_kind = Some(kind);
        self
    }

    /// Takes a part away that redirects need, as on a kernel that does not have it.
    #[must_use]
    pub fn without_redirect_part(mut self, part: RedirectPart) -> Self {
        self.absent_part = Some(part);
        self
    }

    /// Takes a kernel parameter away, as on a kernel that does not have it.
    pub fn remove_sysctl(&mut self, path: &str) {
        self.kernel.absent.insert(path.to_owned());
    }

    /// The kernel parameters of the host that steps have written, each as `path=value`, in order.
    pub fn parameters(&self) -> Vec<String> {
        let written = self.kernel.parameters.iter().filter(|((space, _), _)| *space == Space::host());
        written.map(|((_, path), value)| format!("{path}={value}")).collect()
    }

    fn refuse_unreadable(&self, path: &str) -> Result<(), Error> {
        if self.unreadable.contains(path) { refuse(format!("failed to read {path}")) } else { Ok(()) }
    }

    /// Lets the change of this number, counted from 1, fail, once. Steps count, and a delegated ADD.
    pub fn fail_at(&mut self, number: usize) {
        self.failing = Some(number);
    }

    /// Lets root in the container change something just before the next step whose text contains these words.
    pub fn interfere_before(&mut self, words: &'static str, interference: fn(&mut Self)) {
        self.interference = Some((words, interference));
    }

    /// Whether a change that is made to fail has not been tried yet.
    pub const fn is_to_fail(&self) -> bool {
        self.failing.is_some()
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

    /// Adds a bridge with an address to the host, so that packets to its network leave there.
    #[must_use]
    pub fn with_bridge(mut self, name: &str, address: &str) -> Self {
        let kind = Some("bridge".to_owned());
        self.add_link(Ns::Host, Link { name: name.to_owned(), kind, mtu: 1500, up: true, ..Link::default() });
        let cidr = address.parse().expect("a CIDR");
        self.add_address(Ns::Host, name, Address { cidr, tentative: false, dad_failed: false });
        self
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

    /// Counts a change, and fails if it is the one that is to.
    fn count(&mut self, change: String) -> Result<(), Error> {
        self.applied.push(change.clone());
        if self.failing == Some(self.applied.len()) {
            self.failing = None;
            return Err(RefusedStep { step: change }.into());
        }
        Ok(())
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

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        Ok(self.own_netns.as_deref() == Some(path))
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
            LinkQuery::PeerOf(link) => self.kernel.peer_of(&space, link),
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

    /// A plugin that is called with its own configuration answers as an IPAM plugin does.
    fn delegate(&mut self, plugin: &str, command: Command, other: Option<&Request>) -> Result<Vec<u8>, Error> {
        let input = other.map(|request| String::from_utf8_lossy(request.stdin()).into_owned());
        self.inputs.extend(input.map(|input| format!("{plugin} {} {input}", command.as_str())));
        self.ipam.calls.push(format!("{plugin} {}", command.as_str()));
        if command == Command::Add {
            self.count(format!("delegate ADD to {plugin}"))?;
        }
        if let Some((_, code)) = self.ipam.failing.filter(|(failing, _)| *failing == command) {
            return Err(DelegateFailed { plugin: plugin.to_owned(), code }.into());
        }
        match command {
            Command::Add => {
                self.ipam.leases.insert(self.ipam.answer.clone());
                Ok(self.ipam.answer.clone().into_bytes())
            }
            Command::Del => {
                self.ipam.leases.remove(&self.ipam.answer);
                Ok(Vec::new())
            }
            Command::Check | Command::Status | Command::Gc => Ok(Vec::new()),
        }
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

impl Routing for FakeHost {
    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        let space = self.space(ns)?;
        let routes = self.kernel.routes(&space).into_iter();
        Ok(routes.filter(|route| route.dst.family() == family && table.is_none_or(|id| id == route.table)).collect())
    }

    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.full_routes(&space, family, table))
    }

    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.rules(&space, family))
    }
}

impl Devices for FakeHost {
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error> {
        Ok(self.devices.entries(directory))
    }

    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error> {
        Ok(self.devices.leads_to(link))
    }

    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error> {
        Ok(self.absent_kind != Some(kind))
    }

    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.other_end(&space, link))
    }

    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        let space = self.space(ns)?;
        let port = self.kernel.entries(&space).find(|entry| entry.link.index == index);
        Ok(port.map(|entry| entry.vlans.clone()).unwrap_or_default())
    }

    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.traffic_control(&space, index))
    }

    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error> {
        Ok(self.absent_part)
    }
}

impl NamespaceState for FakeHost {
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.identity(&space))
    }

    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error> {
        let space = self.space(Ns::Container)?;
        Ok(self.kernel.number(&space).map(|value| NamespaceNumber { value, is_unique: true }))
    }

    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error> {
        Ok(match self.kernel.numbered(number) {
            Some(space) => match self.kernel.links(&space, |link| link.index == index).pop() {
                Some(link) => NumberedLink::Link(Box::new(link)),
                None => NumberedLink::NoLink,
            },
            None => NumberedLink::NoNamespace,
        })
    }

    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error> {
        let space = self.kernel.numbered(number);
        Ok(space.map(|space| self.kernel.entries(&space).flat_map(|entry| entry.addresses.clone()).collect()))
    }

    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error> {
        Ok(self.kernel.path_of(identity))
    }

    /// A container that has a path has a process, too.
    fn occupancy(&mut self, number: i32, _index: u32) -> Result<Occupancy, Error> {
        Ok(match self.kernel.numbered(number).map(|space| self.kernel.container(space.word())) {
            Some(FakeContainer::Present(_)) => Occupancy::Occupied("/proc/1/ns/net".to_owned()),
            Some(FakeContainer::Closed) => Occupancy::Unknown("not all processes can be seen".to_owned()),
            Some(FakeContainer::Unnamed | FakeContainer::Gone) | None => Occupancy::Empty,
        })
    }

    fn survey(&mut self, kind: Option<&str>) -> Rc<[NetnsView]> {
        let mut views = self.kernel.views();
        for view in &mut views {
            view.links.retain(|link| link.kind.as_deref() == kind);
            view.addresses.clear();
        }
        views.retain(|view| !view.links.is_empty());
        views.into()
    }

    fn unseen(&mut self, _kind: Option<&str>) -> Option<String> {
        self.unseen.clone()
    }

    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error> {
        Ok(self.kernel.peer_addresses(link))
    }

    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error> {
        Ok(self.space(Ns::Container)? == Space::container(path))
    }
}

impl Files for FakeHost {
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error> {
        Ok(self.administrators_files.get(path).cloned())
    }

    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError> {
        self.refuse_unreadable(&file.to_string()).map_err(StateFileReadError::Unreadable)?;
        Ok(self.state_files.get(&file.path()).cloned())
    }

    fn state_file_names(&mut self, directory: &Path) -> Result<Vec<String>, Error> {
        self.refuse_unreadable(&directory.to_string_lossy())?;
        let files = self.state_files.keys().filter(|path| path.parent() == Some(directory));
        Ok(files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        let space = self.space(ns)?;
        self.refuse_unreadable(&key.path())?;
        Ok(self.kernel.parameter(&space, &key.path()))
    }

    fn effective_ids(&mut self) -> (u32, u32) {
        (0, 0)
    }
}

#[cfg(test)]
mod tests;
