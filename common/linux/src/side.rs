//! One side of a request, the host or the container: its namespace, a socket in it, and its packet filter.
//!
//! The socket is opened once, that of the host when it is needed first, and belongs to the namespace. So the thread enters the
//! namespace only for what depends on the thread's own namespace, such as kernel parameters.

use std::io;
use std::rc::Rc;

use cni_core::error::Error;
use cni_core::fail;
use cni_kernel::netlink::{NetlinkError, Socket, during};
use cni_kernel::netns::{Netns, NetnsScope};
use cni_model::netns::NamespaceNumber;

use crate::iptables::AutoIptables;

pub(crate) struct Side {
    /// The host's is opened when it is needed first.
    netns: Option<Rc<Netns>>,
    socket: Option<Socket>,
    netfilter: AutoIptables,
    scope: NetnsScope,
    /// The number that the host knows the namespace by, once it was asked for: it stays for as long as the namespace is open here.
    pub(crate) number: Option<NamespaceNumber>,
}

impl Side {
    /// The side of the calling thread's namespace.
    pub(crate) fn current() -> Self {
        Self::new(None, NetnsScope::Current)
    }

    /// The side of another namespace, whose socket is opened when it is needed first.
    pub(crate) fn unopened(netns: Netns) -> Self {
        let netns = Rc::new(netns);
        Self::new(Some(Rc::clone(&netns)), NetnsScope::Other(netns))
    }

    /// Opens the side of another namespace.
    pub(crate) fn other(netns: Netns) -> io::Result<Self> {
        let mut side = Self::unopened(netns);
        side.socket().map_err(|error| io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EIO)))?;
        Ok(side)
    }

    fn new(netns: Option<Rc<Netns>>, scope: NetnsScope) -> Self {
        let netfilter = AutoIptables::new().within(scope.clone());
        Self { netns, socket: None, netfilter, scope, number: None }
    }

    /// The packet filter for one decision, which refers to the current state of kept tables.
    pub(crate) fn netfilter(&mut self) -> &mut AutoIptables {
        self.netfilter.expire();
        &mut self.netfilter
    }

    pub(crate) fn netns(&mut self) -> Result<&Rc<Netns>, Error> {
        match &mut self.netns {
            Some(netns) => Ok(netns),
            none => Ok(none.insert(Rc::new(Netns::own().map_err(own_netns_failed)?))),
        }
    }

    pub(crate) fn socket(&mut self) -> Result<&mut Socket, NetlinkError> {
        match &mut self.socket {
            Some(socket) => Ok(socket),
            none => Ok(none.insert(self.scope.run(Socket::open).map_err(unopened)??)),
        }
    }

    /// Does work that depends on the namespace of the calling thread.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.scope.run(work).and_then(|done| done)
    }
}

pub(crate) fn own_netns_failed(source: io::Error) -> Error {
    fail!(InvalidNetns, "get plugin's netns failed", details: "{source}")
}

/// The error of a socket that cannot be opened because its namespace cannot be entered.
fn unopened(error: io::Error) -> NetlinkError {
    during(|| "open a netlink socket".to_owned())(error.into())
}
