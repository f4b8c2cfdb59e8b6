//! The machine behind [`cni_plugin::host::Host`]: one netlink socket for each of the two namespaces.
//!
//! The container's socket is opened on [`Host::enter`] and keeps belonging to the container's namespace,
//! so the thread itself goes inside just for kernel parameters. How each step is carried out is in
//! `apply.rs`.

use std::io;
use std::rc::Rc;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::request::{Command, Request};
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::host::{Host, LinkQuery, NetnsError};
use cni_plugin::link::{Address, KernelRoute, Link};
use cni_plugin::plan::{Ns, Step, Sysctl};
use cni_plugin::record::Records;
use cni_plugin::vlan::BridgeVlan;

use crate::firewalld::SystemFirewalld;
use crate::identity::{IdentityError, identity};
use crate::iptables::AutoIptables;
use crate::netlink::{NetlinkError, Socket};
use crate::netns::{Netns, NetnsScope};
use crate::records::RunRecords;
use crate::{apply, delegate, sysctl};

/// Why this machine cannot serve a request.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The plugin's own namespace cannot be read.
    #[error("get plugin's netns failed")]
    OwnNetns(#[source] io::Error),
    /// A step in the container came before its namespace was entered.
    #[error("the container's network namespace is not open")]
    NotEntered,
    /// A link that a step needs does not exist.
    #[error("there is no link {name:?} in the {ns} namespace")]
    NoLink { ns: Ns, name: String },
    /// A kernel parameter could not be read or written.
    #[error("failed to {verb} {path}")]
    Sysctl {
        verb: &'static str,
        path: String,
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
            Self::NotEntered => Code::Internal,
            Self::NoLink { .. } | Self::Sysctl { .. } => Code::Kernel,
            Self::Random(_) => Code::Io,
        }
    }
}

/// The container's side: its namespace, a socket in it, and its packet filter.
struct Container {
    netns: Rc<Netns>,
    socket: Socket,
    netfilter: AutoIptables,
}

/// This machine, for one request.
pub struct LinuxHost {
    request: Request,
    netns: Netns,
    socket: Socket,
    /// The namespace that was last asked about, with its path, which may lead elsewhere when it is entered.
    asked: Option<(String, Netns)>,
    container: Option<Container>,
    netfilter: AutoIptables,
    firewalld: SystemFirewalld,
    records: RunRecords,
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
        })
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

    /// The records.
    pub(crate) const fn records_mut(&mut self) -> &mut RunRecords {
        &mut self.records
    }

    /// The host's firewalld.
    pub(crate) const fn firewalld_mut(&mut self) -> &mut SystemFirewalld {
        &mut self.firewalld
    }
}

impl Host for LinuxHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        let netns = match self.asked.take() {
            Some((asked, netns)) if asked == path => netns,
            Some(_) | None => Netns::open(path)?,
        };
        let failed = |source| NetnsError::Failed { path: path.to_owned(), source };
        let socket = netns.inside(Socket::open).map_err(failed)?;
        let socket =
            socket.map_err(|error| failed(io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EIO))))?;
        let netns = Rc::new(netns);
        let netfilter = AutoIptables::new().within(NetnsScope::Other(Rc::clone(&netns)));
        self.container = Some(Container { netns, socket, netfilter });
        Ok(())
    }

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        let Ok(netns) = Netns::open(path) else { return Ok(false) };
        let is_own = self.netns.is_same(&netns).map_err(HostError::OwnNetns)?;
        self.asked = Some((path.to_owned(), netns));
        Ok(is_own)
    }

    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error> {
        let identity = self.within(ns, || Ok(identity()))?.map_err(IdentityError::Cookie)?;
        Ok(identity?)
    }

    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        let socket = self.socket(ns)?;
        Ok(match query {
            LinkQuery::Name(name) => socket.link(name.as_str())?.into_iter().collect(),
            LinkQuery::Index(index) => socket.link_by_index(index)?.into_iter().collect(),
            LinkQuery::Kind(kind) => socket.links_of_kind(kind)?,
            LinkQuery::Towards(address) => match socket.route_to(address)? {
                Some(index) => socket.link_by_index(index)?.into_iter().collect(),
                None => Vec::new(),
            },
        })
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        Ok(self.socket(ns)?.addresses(index, family)?)
    }

    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        Ok(self.socket(ns)?.bridge_vlans(index)?)
    }

    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        Ok(self.socket(ns)?.routes(family, table)?)
    }

    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        let failed = |source| HostError::Sysctl { verb: "read", path: sysctl::path(key), source };
        Ok(self.within(ns, || sysctl::read(key))?.map_err(failed)?)
    }

    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        match ns {
            Ns::Host => Ok(&mut self.netfilter),
            Ns::Container => Ok(&mut self.container.as_mut().ok_or(HostError::NotEntered)?.netfilter),
        }
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        &mut self.firewalld
    }

    fn records(&mut self) -> &mut dyn Records {
        &mut self.records
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        apply::apply(self, step)
    }

    fn delegate(&mut self, plugin: &str, command: Command) -> Result<Vec<u8>, Error> {
        Ok(delegate::run(plugin, command, &self.request)?)
    }

    fn random(&mut self) -> Result<[u8; 8], Error> {
        let mut bytes = [0; 8];
        let mut source = std::fs::File::open("/dev/urandom").map_err(HostError::Random)?;
        io::Read::read_exact(&mut source, &mut bytes).map_err(HostError::Random)?;
        Ok(bytes)
    }
}

/// Whether the kernel's answer is that the object does not exist (any more).
pub(crate) fn is_absent(error: &NetlinkError) -> bool {
    matches!(error.errno(), Some(libc::ENODEV | libc::ENOENT | libc::EADDRNOTAVAIL | libc::ESRCH))
}
