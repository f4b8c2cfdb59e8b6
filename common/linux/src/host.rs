//! The machine behind [`Host`]: each request in the namespace that it is about, each step by `apply.rs`.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Command;
use cni_files::{FileError, is_foreign};
use cni_model::daemon::{DaemonCall, DaemonError, Patience};
use cni_model::link::{Address, KernelRoute, Link, OtherEnd};
use cni_model::netns::NetnsError;
use cni_model::netns::{NamespaceNumber, NumberedLink, Occupancy};
use cni_model::plan::{Ns, Step, Sysctl};
use cni_model::routing::{FullRoute, KernelRule};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::devices::Devices;
use cni_plugin::host::{Host, LinkQuery, NetworkState, Storage};
use cni_plugin::lock::LockName;
use cni_plugin::namespace_state::NamespaceState;
use cni_plugin::records::Records;

use nix::unistd::{getegid, geteuid};

use crate::identity::{IdentityError, identity_of};
use crate::iptables::AutoIptables;
use crate::{apply, delegate, inhabitants, unix};
use cni_kernel::netlink::Socket;
use cni_kernel::netns::{Netns, NetnsScope};
use cni_kernel::sysctl;

mod machine;

pub use machine::{HostError, LinuxHost};

use machine::Container;

impl NetworkState for LinuxHost {
    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        let socket = self.socket(ns)?;
        Ok(match query {
            LinkQuery::Name(name) => socket.link(name.as_str())?.into_iter().collect(),
            LinkQuery::Called(name) => socket.link_called(name)?.into_iter().collect(),
            LinkQuery::Index(index) => socket.link_by_index(index)?.into_iter().collect(),
            LinkQuery::All => socket.links()?,
            LinkQuery::Kind(kind) => socket.links_of_kind(kind)?,
            LinkQuery::Towards(address) => match socket.route_to(address)? {
                Some(index) => socket.link_by_index(index)?.into_iter().collect(),
                None => Vec::new(),
            },
            LinkQuery::RouteTo(address) => {
                match socket.exact_route(address)?.and_then(|route| route.links.first().copied()) {
                    Some(index) => socket.link_by_index(index)?.into_iter().collect(),
                    None => Vec::new(),
                }
            }
            LinkQuery::ChildOf { master, kind } => self.child_of(ns, master, kind)?.into_iter().collect(),
            LinkQuery::PeerOf(link) => self.peer_of(link, ns)?.into_iter().collect(),
        })
    }

    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error> {
        Ok(self.socket(Ns::Host)?.has_link_kind(kind)?)
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        Ok(self.socket(ns)?.addresses(index, family)?)
    }

    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error> {
        Ok(self.socket(Ns::Host)?.peer_addresses(link)?)
    }

    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error> {
        match ns {
            Ns::Host => Ok(leads_on(link).then_some(OtherEnd { index: link.peer, netns: link.peer_netns })),
            Ns::Container => self.other_end_of_contained(link),
        }
    }

    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        Ok(self.socket(ns)?.bridge_vlans(index)?)
    }

    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error> {
        Ok(apply::traffic::observe(self.socket(ns)?, index)?)
    }

    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error> {
        let socket = Netns::inside_new(Socket::open).map_err(HostError::NewNetns)?;
        Ok(apply::traffic::missing_part(&mut socket?))
    }

    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        Ok(self.socket(ns)?.routes(family, table)?)
    }

    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error> {
        Ok(self.socket(ns)?.full_routes(family, table)?)
    }

    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error> {
        Ok(self.socket(ns)?.rules(family)?)
    }
}

impl NamespaceState for LinuxHost {
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error> {
        let cookie = self.socket(ns)?.netns_cookie().map_err(IdentityError::Cookie)?;
        Ok(cookie.map(identity_of).transpose()?)
    }

    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error> {
        let cookie = self.socket(Ns::Container)?.netns_cookie().map_err(IdentityError::Cookie)?;
        let (socket, netns) = self.socket_and_netns(Ns::Host, Some(Ns::Container))?;
        let (Some(cookie), Some(netns)) = (cookie, netns) else { return Ok(None) };
        let wanted = number_of(cookie);
        let given = socket.ensure_number(netns.as_fd(), wanted)?;
        Ok(given.map(|value| NamespaceNumber { value, is_unique: value == wanted }))
    }

    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error> {
        Ok(self.socket(Ns::Host)?.numbered_link(number, index)?)
    }

    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error> {
        Ok(self.socket(Ns::Host)?.numbered_addresses(number)?)
    }

    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error> {
        Ok(inhabitants::path_by_process(identity).map_err(FileError::of("list", Path::new("/proc")))?)
    }

    fn occupancy(&mut self, number: i32, index: u32) -> Result<Occupancy, Error> {
        inhabitants::occupancy(number, index, self.socket(Ns::Host)?)
    }
}

/// The number that a namespace gets by its cookie. The kernel gives out cookies in order, and chooses small numbers itself, so
/// no other namespace of this boot has it before 2^30 have come and gone.
fn number_of(cookie: u64) -> i32 {
    const LOW: u64 = 0x3fff_ffff;
    const FIRST: i32 = 0x4000_0000;
    FIRST | i32::try_from(cookie & LOW).unwrap_or_default()
}

const fn leads_on(link: &Link) -> bool {
    link.peer.is_some() || link.peer_netns.is_some()
}

impl Storage for LinuxHost {
    fn records(&mut self) -> &mut dyn Records {
        &mut self.records
    }

    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FileError::of("read", path)(source).into()),
        }
    }

    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError> {
        let content = cni_files::read_private(&file.path()).map_err(|error| match is_foreign(&error) {
            true => StateFileReadError::Foreign(error.into()),
            false => StateFileReadError::Unreadable(error.into()),
        })?;
        Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned()))
    }

    /// A delegate works under the locks of the plugin that waits for it.
    fn lock(&mut self, name: &LockName) -> Result<(), Error> {
        if delegate::is_delegate(&self.request) {
            return Ok(());
        }
        Ok(self.locks.take(name)?)
    }
}

impl Host for LinuxHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        if self.container.as_ref().is_some_and(|container| container.path == path) {
            return Ok(());
        }
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
        self.container = Some(Container { path: path.to_owned(), netns, socket, netfilter });
        Ok(())
    }

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        let Ok(netns) = Netns::open(path) else { return Ok(false) };
        let is_own = self.netns.is_same(&netns).map_err(HostError::OwnNetns)?;
        self.asked = Some((path.to_owned(), netns));
        Ok(is_own)
    }

    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error> {
        let container = self.container.as_ref().ok_or(HostError::NotEntered)?;
        let Ok(netns) = Netns::open(path) else { return Ok(false) };
        Ok(container.netns.is_same(&netns).map_err(HostError::OwnNetns)?)
    }

    fn effective_ids(&mut self) -> (u32, u32) {
        (geteuid().as_raw(), getegid().as_raw())
    }

    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        let failed = |source| HostError::ReadSysctl { path: sysctl::path(key), source };
        Ok(self.within(ns, || sysctl::read(key))?.map_err(failed)?)
    }

    fn devices(&mut self) -> &mut dyn Devices {
        &mut self.devices
    }

    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        Ok(self.netfilter_mut(ns)?)
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        &mut self.firewalld
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        apply::apply(self, step)
    }

    fn delegate(&mut self, plugin: &str, command: Command) -> Result<Vec<u8>, Error> {
        Ok(delegate::run(plugin, command, &self.request, self.contained)?)
    }

    fn ask_daemon(&mut self, call: &DaemonCall, patience: Patience<'_>) -> Result<Vec<u8>, DaemonError> {
        let netns = self.container.as_ref().map(|container| Rc::clone(&container.netns)).filter(|_| call.with_netns);
        unix::ask(call, netns.as_deref().map(AsFd::as_fd), patience)
    }

    fn random(&mut self) -> Result<[u8; 8], Error> {
        let mut bytes = [0; 8];
        let mut source = std::fs::File::open("/dev/urandom").map_err(HostError::Random)?;
        io::Read::read_exact(&mut source, &mut bytes).map_err(HostError::Random)?;
        Ok(bytes)
    }
}
