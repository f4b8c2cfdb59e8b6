//! A host that notes what it is asked to do: a ledger, locks, and namespaces with their links. Of all steps only those of the ledger change anything.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_core::request::{Command, Request};
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, Link};
use cni_model::netns::{NamespaceNumber, NetnsError, NetnsView, NumberedLink, Occupancy};
use cni_model::plan::{Ns, Step};
use cni_model::record::PartKind;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::host::{Devices, Files, Host, LinkQuery, NamespaceState, Routing};
use cni_plugin::ledger::{Entry, Ledger};
use cni_plugin::lock::LockName;

pub const NETNS: &str = "/run/netns/c1";

/// A failure of a given text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Told(pub &'static str);

impl Failure for Told {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

/// Where a path leads, and what the kernel says of the namespace's number, which is its place in the list.
#[derive(Clone, Debug, Default)]
pub struct StubNamespace {
    pub path: String,
    pub identity: String,
    pub links: Vec<Link>,
    pub has_ended: bool,
    pub is_closed: bool,
    pub is_occupied: bool,
}

#[derive(Clone, Default)]
pub struct StubHost {
    pub namespaces: Vec<StubNamespace>,
    pub entered: usize,
    /// What is entered again after work elsewhere.
    pub kept: Vec<usize>,
    pub ledger: BTreeMap<Attachment, Entry>,
    pub locks: Vec<LockName>,
    pub are_locks_held: bool,
    pub is_ledger_unreadable: bool,
    /// The steps, those that failed included, and the calls of other plugins.
    pub applied: Vec<String>,
    pub failing: Vec<usize>,
}

impl StubHost {
    /// A host with a container that has an interface.
    pub fn new() -> Self {
        let mut host = Self::default();
        host.add(NETNS);
        host
    }

    pub fn add(&mut self, path: &str) -> &mut StubNamespace {
        let link = Link { index: 2, name: "eth0".to_owned(), kind: Some("macvlan".to_owned()), ..Link::default() };
        let (path, identity) = (path.to_owned(), format!("boot:{}", self.namespaces.len()));
        self.namespaces.push(StubNamespace { path, identity, links: vec![link], ..StubNamespace::default() });
        self.namespaces.last_mut().expect("one")
    }

    fn require_readable(&self) -> Result<(), Error> {
        if self.is_ledger_unreadable { Err(Told("unreadable").into()) } else { Ok(()) }
    }

    fn numbered(&self, number: i32) -> Option<&StubNamespace> {
        self.namespaces.get(usize::try_from(number).ok()?).filter(|namespace| !namespace.has_ended)
    }
}

pub fn at(container: &str, ifname: &str) -> Attachment {
    Attachment {
        network: NetworkName::parse("net").expect("a network"),
        container: ContainerId::parse(container).expect("a container"),
        ifname: IfName::parse(ifname).expect("a name"),
    }
}

/// Methods that no test here calls.
macro_rules! unused {
    ($(fn $name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(fn $name(&mut self $(, _: $argument)*) -> $result { unimplemented!() })*
    };
}

impl Host for StubHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        let found = self.namespaces.iter().rposition(|namespace| namespace.path == path && !namespace.has_ended);
        let gone = || NetnsError::Gone { path: path.to_owned(), reason: "told".to_owned() };
        self.entered = found.ok_or_else(gone)?;
        let failed =
            || NetnsError::Failed { path: path.to_owned(), source: std::io::ErrorKind::PermissionDenied.into() };
        if self.namespaces[self.entered].is_closed { Err(failed()) } else { Ok(()) }
    }

    fn is_own_netns(&mut self, _path: &str) -> Result<bool, Error> {
        Ok(false)
    }

    fn addresses(&mut self, _: Ns, _: Option<u32>, _: Option<Family>) -> Result<Vec<Address>, Error> {
        Err(Told("unreadable").into())
    }

    fn links(&mut self, _ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        let is_meant = |link: &&Link| {
            query == LinkQuery::Index(link.index)
                || IfName::parse(&link.name).is_ok_and(|name| query == LinkQuery::Name(&name))
        };
        Ok(self.namespaces[self.entered].links.iter().filter(is_meant).cloned().collect())
    }

    fn namespaces(&mut self) -> &mut dyn NamespaceState {
        self
    }

    fn ledger(&mut self) -> &mut dyn Ledger {
        self
    }

    fn lock(&mut self, name: &LockName) -> Result<(), Error> {
        self.locks.push(name.clone());
        if self.are_locks_held { Err(Told("held").into()) } else { Ok(()) }
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        self.applied.push(step.to_string());
        if self.failing.contains(&self.applied.len()) {
            return Err(Told("refused").into());
        }
        if let Step::Record { at, namespace, parts } = step {
            let earlier = self.ledger.remove(at);
            let (entry, undo) = Entry::changed(earlier, at, namespace.as_deref(), parts);
            self.ledger.extend(entry.map(|entry| (at.clone(), entry)));
            return Ok(Some(undo));
        } else if let Step::WriteStateFile { file, .. } = step {
            return Ok(Some(Step::RemoveStateFile { file: file.clone(), directories: Vec::new() }));
        }
        Ok(None)
    }

    fn delegate(&mut self, plugin: &str, command: Command, _: Option<&Request>) -> Result<Vec<u8>, Error> {
        self.applied.push(format!("{plugin} {}", command.as_str()));
        if self.failing.contains(&self.applied.len()) { Err(Told("plugin failed").into()) } else { Ok(Vec::new()) }
    }

    unused! {
        fn routing() -> &mut dyn Routing;
        fn devices() -> &mut dyn Devices;
        fn files() -> &mut dyn Files;
        fn netfilter(Ns) -> Result<&mut dyn Netfilter, Error>;
        fn firewalld() -> &mut dyn Firewalld;
        fn ask_daemon(&DaemonCall, AnswerTimeout<'_>) -> Result<Vec<u8>, DaemonError>;
        fn random() -> [u8; 8];
    }
}

impl NamespaceState for StubHost {
    fn identity(&mut self, _ns: Ns) -> Result<Option<String>, Error> {
        Ok(Some(self.namespaces[self.entered].identity.clone()))
    }

    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error> {
        Ok(i32::try_from(self.entered).ok().map(|value| NamespaceNumber { value, is_unique: true }))
    }

    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error> {
        let Some(namespace) = self.numbered(number) else { return Ok(NumberedLink::NoNamespace) };
        let link = namespace.links.iter().find(|link| link.index == index);
        Ok(link.map_or(NumberedLink::NoLink, |link| NumberedLink::Link(Box::new(link.clone()))))
    }

    fn occupancy(&mut self, number: i32, _index: u32) -> Result<Occupancy, Error> {
        let is_occupied = self.numbered(number).is_some_and(|namespace| namespace.is_occupied);
        Ok(if is_occupied { Occupancy::Occupied("/proc/7".to_owned()) } else { Occupancy::Empty })
    }

    fn keep(&mut self) {
        self.kept.push(self.entered);
    }

    fn back(&mut self) {
        self.entered = self.kept.pop().expect("kept");
    }

    fn path_by_process(&mut self, _identity: &str) -> Result<Option<String>, Error> {
        Ok(None)
    }

    unused! {
        fn leads_to_container(&str) -> Result<bool, Error>;
        fn numbered_links(i32) -> Result<Option<Vec<Link>>, Error>;
        fn numbered_addresses(i32) -> Result<Option<Vec<Address>>, Error>;
        fn peer_addresses(&Link) -> Result<Option<Vec<Address>>, Error>;
        fn survey(Option<&str>) -> Rc<[NetnsView]>;
        fn unseen(Option<&str>) -> Option<String>;
    }
}

impl Ledger for StubHost {
    fn entry(&mut self, at: &Attachment) -> Result<Option<Entry>, Error> {
        self.require_readable()?;
        Ok(self.ledger.get(at).cloned())
    }

    fn entries(&mut self, known: &[&Attachment]) -> Result<Vec<Entry>, Error> {
        self.require_readable()?;
        Ok(self.ledger.values().filter(|entry| !known.contains(&&entry.at)).cloned().collect())
    }

    fn holders(&mut self, kind: PartKind, _is_meant: &dyn Fn(&str) -> bool) -> Result<Vec<Entry>, Error> {
        self.require_readable()?;
        Ok(self.ledger.values().filter(|entry| entry.part(&kind.part()).is_some()).cloned().collect())
    }

    fn since_boot(&mut self) -> Result<Duration, Error> {
        Ok(Duration::from_secs(86400))
    }

    fn now(&mut self) -> Duration {
        Duration::from_secs(7)
    }
}
