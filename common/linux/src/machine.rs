//! The machine during one request: its two [sides](Side), and the state of the request. `observe.rs` asks it,
//! `apply.rs` changes it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_kernel::netlink::{LinkWatch, NetlinkError, Socket};
use cni_kernel::netns::Netns;
use cni_model::link::Link;
use cni_model::netns::{NetnsError, NetnsView};
use cni_model::plan::Ns;

use crate::delegate::ContainedPlugins;
use crate::firewalld::SystemFirewalld;

use crate::ledger::RunLedger;
use crate::locks::Locks;
use crate::side::{Side, own_netns_failed};

/// This machine, for one request.
pub struct LinuxHost {
    pub(crate) request: Request,
    host: Side,
    /// The container's side, once it was entered, with its path as it was given.
    pub(crate) container: Option<(String, ContainerSide)>,
    use_of_host: UseOfHost,
    /// What is set aside while other namespaces are searched.
    pub(crate) kept: Vec<Option<(String, ContainerSide)>>,
    /// The namespace that was last asked about, with its path. If it is open, it is entered by this: the path may lead elsewhere by then.
    asked: Option<(String, AskedNetns)>,
    pub(crate) firewalld: SystemFirewalld,
    pub(crate) ledger: RunLedger,
    pub(crate) locks: Locks,
    /// Calls delegates that are part of this program.
    pub(crate) contained: Option<ContainedPlugins>,
    /// The surveys by the kind of link, `None` for hardware. Each is made once: `gc` asks for each of many containers, all of
    /// which were dead before the first survey.
    pub(crate) surveys: BTreeMap<Option<String>, Survey>,
    /// The veths of the host, if many requests ask for them.
    veths: Option<HostVeths>,
}

/// A namespace that was asked about.
enum AskedNetns {
    Open(Netns),
    /// Another than the host's is at the path.
    Seen,
}

/// The container's side.
pub(crate) enum ContainerSide {
    Open(Box<Side>),
    /// A host that only looks opens it when something is asked about it.
    AtPath,
}

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UseOfHost {
    Changes,
    /// Nothing that is seen leads to a change.
    Looks,
}

/// The namespaces of the machine that have links of a kind.
pub(crate) struct Survey {
    pub(crate) views: Rc<[NetnsView]>,
    /// What could not be seen.
    pub(crate) gaps: Option<String>,
    /// Paths of the views lead there for as long as these are open.
    pub(crate) _kept: Vec<OwnedFd>,
}

impl LinuxHost {
    /// Opens nothing yet.
    pub fn new(request: &Request) -> Self {
        Self {
            request: request.clone(),
            host: Side::current(),
            container: None,
            use_of_host: UseOfHost::Changes,
            kept: Vec::new(),
            asked: None,
            firewalld: SystemFirewalld::new(),
            ledger: RunLedger::default(),
            locks: Locks::default(),
            contained: None,
            surveys: BTreeMap::new(),
            veths: None,
        }
    }

    /// Serves another request from now on, over the same sockets: closing one waits for the kernel where rules have been
    /// deleted.
    pub fn begin_request(&mut self, request: &Request) {
        self.end_request();
        self.request = request.clone();
    }

    /// Serves another request from now on, under the locks that are held.
    pub fn next_request(&mut self, request: &Request) {
        self.asked = None;
        self.container = None;
        self.request = request.clone();
    }

    /// Closes all sockets and namespaces, to be opened anew when they are needed: nothing that has failed is used again. Keeps
    /// the locks, and what is known about the machine.
    #[must_use]
    pub fn reopened(self, request: &Request) -> Self {
        let Self { locks, contained, surveys, veths, use_of_host, mut host, .. } = self;
        let mut reopened = Self { locks, contained, surveys, veths, use_of_host, ..Self::new(request) };
        reopened.host.netfilter().take_over_tables(host.netfilter());
        reopened
    }

    /// Whether there are records of attachments of this boot, and all of them belong to other network namespaces.
    pub fn has_records_elsewhere(&mut self) -> Result<bool, Error> {
        self.ledger.are_elsewhere()
    }

    /// The file of what is recorded of an attachment. It may be missing.
    pub fn record_path(&mut self, at: &Attachment) -> Result<PathBuf, Error> {
        self.ledger.path(at)
    }

    /// Sets whether to wait for locks that others hold. A process that already holds locks must not wait for more of them in no
    /// order: the process that has those may wait for the first.
    pub const fn set_waiting(&mut self, is_waiting: bool) {
        self.locks.set_waiting(is_waiting);
    }

    /// Releases what belongs to a request: the container's namespace, and locks.
    pub fn end_request(&mut self) {
        self.asked = None;
        self.container = None;
        self.locks = Locks::default();
    }

    /// Lets delegates that this program contains be called inside the process.
    #[must_use]
    pub fn with_contained(self, contained: ContainedPlugins) -> Self {
        Self { contained: Some(contained), ..self }
    }

    /// Lists the veths of the host again only after a change of its links.
    #[must_use]
    pub fn with_watched_veths(self) -> Self {
        Self { veths: Some(HostVeths::default()), ..self }
    }

    /// Lists the host's nf_tables as a whole, and again only after a change, for many requests about the same tables; not if they
    /// change all the time.
    #[must_use]
    pub fn with_kept_tables(mut self) -> Self {
        self.host.netfilter().keep_tables();
        self
    }

    /// Makes a host that only looks, at many containers one after the other. It enters a container's namespace only where something is
    /// asked about it.
    #[must_use]
    pub const fn only_looking(mut self) -> Self {
        self.use_of_host = UseOfHost::Looks;
        self
    }

    /// The links of a kind in a namespace.
    pub(crate) fn links_of_kind(&mut self, ns: Ns, kind: &str) -> Result<Vec<Link>, Error> {
        if let (Ns::Host, VETH, Some(veths)) = (ns, kind, &mut self.veths) {
            return Ok(veths.list(self.host.socket()?)?);
        }
        Ok(self.socket(ns)?.links_of_kind(kind)?)
    }

    /// Enters the container's namespace, unless it is entered already. A host that only looks may leave that to
    /// [`LinuxHost::open_container`].
    ///
    /// # Errors
    /// [`NetnsError::Gone`] if the path leads to no namespace.
    pub(crate) fn enter_container(&mut self, path: &str) -> Result<(), NetnsError> {
        if self.container.as_ref().is_some_and(|(entered, _)| entered == path) {
            return Ok(());
        }
        // An open one of another path is entered later: others may be searched first. One that was only seen may end meanwhile.
        let is_dropped = |(asked, netns): &mut (String, AskedNetns)| asked == path || matches!(netns, AskedNetns::Seen);
        let asked = self.asked.take_if(is_dropped).filter(|(asked, _)| asked == path).map(|(_, netns)| netns);
        let side = match asked {
            Some(AskedNetns::Seen) => ContainerSide::AtPath,
            Some(AskedNetns::Open(netns)) => ContainerSide::Open(Box::new(self.open_side(netns, path)?)),
            None => ContainerSide::Open(Box::new(self.open_side(Netns::open(path)?, path)?)),
        };
        self.container = Some((path.to_owned(), side));
        Ok(())
    }

    fn open_side(&self, netns: Netns, path: &str) -> Result<Side, NetnsError> {
        let side = match self.use_of_host {
            UseOfHost::Changes => Side::other(netns),
            UseOfHost::Looks => netns.require_network().map(|()| Side::unopened(netns)),
        };
        side.map_err(|source| NetnsError::Failed { path: path.to_owned(), source })
    }

    /// Opens the namespace that was entered, if a host that only looks has not done so.
    ///
    /// # Errors
    /// As when it is entered.
    pub fn open_container(&mut self) -> Result<(), NetnsError> {
        if let Some((path, ContainerSide::AtPath)) = &self.container {
            let opened = self.open_side(Netns::open(path)?, path)?;
            self.container = Some((path.clone(), ContainerSide::Open(Box::new(opened))));
        }
        Ok(())
    }

    /// The side of the namespace that was entered, which it opens.
    fn container_side(&mut self) -> Result<&mut Side, Error> {
        self.open_container()?;
        match &mut self.container {
            Some((_, ContainerSide::Open(side))) => Ok(side),
            Some((_, ContainerSide::AtPath)) | None => {
                Err(fail!(Internal, "the container's network namespace is not open"))
            }
        }
    }

    /// Whether a path leads to the host's own namespace. If a namespace was entered by this path, compares that one.
    pub(crate) fn is_own(&mut self, path: &str) -> Result<bool, Error> {
        let own = self.host.netns()?;
        if let Some((entered, ContainerSide::Open(side))) = &mut self.container
            && entered == path
        {
            return own.is_same(side.netns()?).map_err(own_netns_failed);
        }
        // By its number alone a namespace of another kind looks the same.
        if self.use_of_host == UseOfHost::Looks && (path.ends_with("/ns/net") || path.contains("/netns/")) {
            let is_own = own.is_at(Path::new(path)).map_err(own_netns_failed)?;
            self.asked = is_own.filter(|is_own| !is_own).map(|_| (path.to_owned(), AskedNetns::Seen));
            return Ok(is_own == Some(true));
        }
        let Ok(netns) = Netns::open(path) else { return Ok(false) };
        let is_own = own.is_same(&netns).map_err(own_netns_failed)?;
        self.asked = Some((path.to_owned(), AskedNetns::Open(netns)));
        Ok(is_own)
    }

    /// The side of a namespace.
    pub(crate) fn side(&mut self, ns: Ns) -> Result<&mut Side, Error> {
        match ns {
            Ns::Host => Ok(&mut self.host),
            Ns::Container => self.container_side(),
        }
    }

    /// The socket of a namespace.
    pub(crate) fn socket(&mut self, ns: Ns) -> Result<&mut Socket, Error> {
        Ok(self.side(ns)?.socket()?)
    }

    /// The socket of `ns`, and the namespace `other`, which may be the same one. Two calls would borrow `self` twice.
    pub(crate) fn socket_and_netns(
        &mut self,
        ns: Ns,
        other: Option<Ns>,
    ) -> Result<(&mut Socket, Option<Rc<Netns>>), Error> {
        let netns = other.map(|other| self.side(other)?.netns().cloned()).transpose()?;
        Ok((self.socket(ns)?, netns))
    }
}

const VETH: &str = "veth";

/// A listing of the host's veths, and a watch for changes, for a process that asks for them again and again.
///
/// One listing takes the kernel some milliseconds with 1000 containers. `gc` looks in it for what is left of each dead
/// container; so it keeps the listing until the kernel reports a change. The kernel does not report a new alias of a link that
/// is down. So a link of ADD may be listed without its alias until it is up, and before a link is removed by its alias, it is read again.
#[derive(Debug, Default)]
struct HostVeths {
    listed: Option<Vec<Link>>,
    /// `None` until the first listing.
    watch: Option<LinkWatch>,
}

impl HostVeths {
    /// The veths as they are now. The socket belongs to the namespace that the calling thread is in.
    fn list(&mut self, socket: &mut Socket) -> Result<Vec<Link>, NetlinkError> {
        if self.watch.is_none() {
            self.watch =
                LinkWatch::open().inspect_err(|error| log::debug!("changes of links cannot be watched: {error}")).ok();
        }
        let may_have_changed = self.watch.as_mut().is_none_or(LinkWatch::has_changed);
        if let Some(listed) = self.listed.as_ref().filter(|_| !may_have_changed) {
            return Ok(listed.clone());
        }
        self.listed = None;
        let listed = socket.links_of_kind(VETH)?;
        Ok(self.listed.insert(listed).clone())
    }
}
