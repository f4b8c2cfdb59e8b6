//! What a request needs of the machine: one netlink socket for each of the two namespaces, and the packet filters.
//!
//! The container's socket is opened when its namespace is entered, and keeps belonging to that namespace, so the
//! thread itself goes inside only for kernel parameters.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_model::link::{Link, OtherEnd};
use cni_model::netns::NumberedLink;
use cni_model::plan::Ns;
use cni_plugin::namespace_state::NamespaceState as _;

use crate::delegate::Contained;
use crate::devices::KernelDevices;
use crate::firewalld::SystemFirewalld;
use crate::iptables::AutoIptables;
use crate::locks::Locks;
use crate::records::RunRecords;
use cni_kernel::netlink::Socket;
use cni_kernel::netns::Netns;

/// Why this machine cannot serve a request.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The plugin's own namespace cannot be read.
    #[error("get plugin's netns failed")]
    OwnNetns(#[source] io::Error),
    /// No namespace can be made.
    #[error("failed to create a network namespace")]
    NewNetns(#[source] io::Error),
    /// A step in the container came before its namespace was entered.
    #[error("the container's network namespace is not open")]
    NotEntered,
    /// A link that a step needs does not exist.
    #[error("there is no link {name:?} in the {ns} namespace")]
    NoLink { ns: Ns, name: String },
    /// A kernel parameter could not be read.
    #[error("failed to read {path}")]
    ReadSysctl {
        path: String,
        #[source]
        source: io::Error,
    },
    /// A kernel parameter does not take a value.
    #[error("failed to write {value:?} to {path}")]
    WriteSysctl {
        path: String,
        value: String,
        #[source]
        source: io::Error,
    },
    /// The kernel gave no random bytes.
    #[error("failed to read random bytes")]
    Random(#[source] io::Error),
}

impl Failure for HostError {
    fn code(&self) -> Code {
        match self {
            Self::OwnNetns(_) => Code::InvalidNetns,
            Self::NewNetns(_) => Code::Kernel,
            Self::NotEntered => Code::Internal,
            Self::NoLink { .. } | Self::ReadSysctl { .. } | Self::WriteSysctl { .. } => Code::Kernel,
            Self::Random(_) => Code::Io,
        }
    }
}

/// The container's side: its namespace, a socket in it, and its packet filter.
pub(super) struct Container {
    /// As it was given.
    pub(super) path: String,
    pub(super) netns: Rc<Netns>,
    pub(super) socket: Socket,
    pub(super) netfilter: AutoIptables,
}

/// This machine, for one request.
pub struct LinuxHost {
    pub(super) request: Request,
    pub(super) netns: Netns,
    socket: Socket,
    /// The namespace that was last asked about, with its path, which may lead elsewhere when it is entered.
    pub(super) asked: Option<(String, Netns)>,
    pub(super) container: Option<Container>,
    pub(super) netfilter: AutoIptables,
    pub(super) firewalld: SystemFirewalld,
    pub(super) records: RunRecords,
    pub(super) locks: Locks,
    pub(super) devices: KernelDevices,
    /// Calls delegates that are part of this program.
    pub(super) contained: Option<Contained>,
}

impl LinuxHost {
    /// Opens the host's side.
    ///
    /// # Errors
    /// When the kernel gives no netlink socket, or `/proc` does not exist.
    pub fn new(request: &Request) -> Result<Self, Error> {
        Ok(Self {
            request: request.clone(),
            netns: Netns::own().map_err(HostError::OwnNetns)?,
            socket: Socket::open()?,
            asked: None,
            container: None,
            netfilter: AutoIptables::new(),
            firewalld: SystemFirewalld::new(),
            records: RunRecords::default(),
            locks: Locks::default(),
            devices: KernelDevices,
            contained: None,
        })
    }

    /// Serves another request from now on, over the same sockets: closing one waits for the kernel where rules have been
    /// deleted.
    pub fn begin_request(&mut self, request: &Request) {
        self.end_request();
        self.request = request.clone();
    }

    /// Serves another request about the same attachment from now on, under the locks that are held.
    pub fn next_request(&mut self, request: &Request) {
        self.asked = None;
        self.container = None;
        self.request = request.clone();
    }

    /// Opens everything anew, under the locks that are held: nothing of what has failed is used again.
    ///
    /// # Errors
    /// As [`LinuxHost::new`].
    pub fn reopened(self, request: &Request) -> Result<Self, Error> {
        Ok(Self { locks: self.locks, contained: self.contained, ..Self::new(request)? })
    }

    /// Whether there are records of this boot, and all of them belong to other network namespaces.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn has_records_elsewhere(&mut self) -> Result<bool, Error> {
        self.records.are_elsewhere()
    }

    /// Gives back what belongs to a request: the container's namespace, and locks.
    pub fn end_request(&mut self) {
        self.asked = None;
        self.container = None;
        self.locks = Locks::default();
    }

    /// Lets delegates that this program contains be called inside the process.
    #[must_use]
    pub fn with_contained(self, contained: Contained) -> Self {
        Self { contained: Some(contained), ..self }
    }

    /// The socket of a namespace.
    pub(crate) fn socket(&mut self, ns: Ns) -> Result<&mut Socket, HostError> {
        match ns {
            Ns::Host => Ok(&mut self.socket),
            Ns::Container => {
                self.container.as_mut().map(|container| &mut container.socket).ok_or(HostError::NotEntered)
            }
        }
    }

    /// The socket of a namespace, and the other or the same namespace at once.
    pub(crate) fn socket_and_netns(
        &mut self,
        ns: Ns,
        other: Option<Ns>,
    ) -> Result<(&mut Socket, Option<&Netns>), HostError> {
        let Self { netns: host_netns, socket: host_socket, container, .. } = self;
        let (container_socket, container_netns) = match container {
            Some(Container { netns, socket, .. }) => (Some(socket), Some(&*netns)),
            None => (None, None),
        };
        let netns = match other {
            None => None,
            Some(Ns::Host) => Some(&*host_netns),
            Some(Ns::Container) => Some(container_netns.map(Rc::as_ref).ok_or(HostError::NotEntered)?),
        };
        let socket = match ns {
            Ns::Host => host_socket,
            Ns::Container => container_socket.ok_or(HostError::NotEntered)?,
        };
        Ok((socket, netns))
    }

    /// The other end of a veth, if it is in `ns`: only the namespace of the link can say so, by its number for `ns`.
    pub(super) fn peer_of(&mut self, link: &Link, ns: Ns) -> Result<Option<Link>, Error> {
        let other = match ns {
            Ns::Host => Ns::Container,
            Ns::Container => Ns::Host,
        };
        let (socket, netns) = self.socket_and_netns(other, Some(ns))?;
        let (Some(index), Some(netns)) = (link.peer, netns) else { return Ok(None) };
        let leads_there = link.peer_netns.is_some() && socket.netns_id(netns.as_fd())? == link.peer_netns;
        Ok(if leads_there { self.socket(ns)?.link_by_index(index)? } else { None })
    }

    /// Asks about a link of the container from the host, whose numbers of namespaces the answer then has.
    pub(super) fn other_end_of_contained(&mut self, link: &Link) -> Result<Option<OtherEnd>, Error> {
        let Some(number) = self.container_number(link)? else { return Ok(None) };
        let socket = &mut self.socket;
        let NumberedLink::Link(seen) = socket.numbered_link(number, link.index)? else { return Ok(None) };
        // The answer has given the host's own namespace its number.
        let own = socket.netns_id(self.netns.as_fd())?;
        // A kernel before Linux 4.15 does not read the number, and answers about the host's link of the index.
        let is_same = (&seen.name, &seen.kind, &seen.mac) == (&link.name, &link.kind, &link.mac);
        let leads_out = is_same && seen.peer_netns.is_some();
        Ok(leads_out.then(|| OtherEnd { index: seen.peer, netns: seen.peer_netns.filter(|id| Some(*id) != own) }))
    }

    /// The number of the container's namespace; `None` when the link does not lead out of it.
    fn container_number(&mut self, link: &Link) -> Result<Option<i32>, Error> {
        if link.peer_netns.is_none() {
            return Ok(None);
        }
        if let Some(number) = self.number_container()? {
            return Ok(Some(number.value));
        }
        let (socket, netns) = self.socket_and_netns(Ns::Host, Some(Ns::Container))?;
        let Some(netns) = netns else { return Ok(None) };
        socket.number_netns(netns.as_fd())?;
        Ok(socket.netns_id(netns.as_fd())?)
    }

    /// A link of a kind on a master: where that is, or in a namespace that has a number there.
    pub(super) fn child_of(&mut self, ns: Ns, master: u32, kind: &'static str) -> Result<Option<Link>, Error> {
        let (socket, own) = self.socket_and_netns(ns, Some(ns))?;
        let here = socket.links_of_kind(kind)?;
        let beside = |link: &Link| link.peer == Some(master) && link.peer_netns.is_none();
        match (here.into_iter().find(beside), own) {
            (None, Some(own)) => Ok(socket.child_elsewhere(master, kind, own.as_fd())?),
            (found, _) => Ok(found),
        }
    }

    /// Does something in a namespace that follows the calling thread.
    pub(crate) fn within<T>(&self, ns: Ns, work: impl FnOnce() -> io::Result<T>) -> Result<io::Result<T>, HostError> {
        match ns {
            Ns::Host => Ok(work()),
            Ns::Container => {
                let container = self.container.as_ref().ok_or(HostError::NotEntered)?;
                Ok(container.netns.inside(work).and_then(|done| done))
            }
        }
    }

    /// The packet filter of a namespace.
    pub(crate) fn netfilter_mut(&mut self, ns: Ns) -> Result<&mut AutoIptables, HostError> {
        match ns {
            Ns::Host => Ok(&mut self.netfilter),
            Ns::Container => {
                self.container.as_mut().map(|container| &mut container.netfilter).ok_or(HostError::NotEntered)
            }
        }
    }

    pub(crate) const fn records_mut(&mut self) -> &mut RunRecords {
        &mut self.records
    }

    /// The host's firewalld.
    pub(crate) const fn firewalld_mut(&mut self) -> &mut SystemFirewalld {
        &mut self.firewalld
    }
}
