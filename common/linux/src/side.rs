//! One side of a request, the host or the container: its namespace, a socket in it, and its packet filter.
//!
//! The socket is opened once, the host's when it is needed first, and belongs to the namespace. So the thread enters the
//! namespace only for what depends on the thread's own namespace, such as kernel parameters.

use std::io;
use std::rc::Rc;

use cni_kernel::netlink::{NetlinkError, Socket};
use cni_kernel::netns::{Netns, NetnsScope};

use crate::iptables::AutoIptables;

pub(crate) struct Side {
    /// The host's is opened when it is needed first.
    netns: Option<Rc<Netns>>,
    socket: Option<Socket>,
    netfilter: AutoIptables,
    scope: NetnsScope,
}

impl Side {
    /// The side of the calling thread's namespace.
    pub(crate) fn current() -> Self {
        Self::new(None, None, NetnsScope::Current)
    }

    /// Opens the side of another namespace.
    pub(crate) fn other(netns: Netns) -> io::Result<Self> {
        let netns = Rc::new(netns);
        let socket = netns.inside(Socket::open)?;
        let socket = socket.map_err(|error| io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EIO)))?;
        Ok(Self::new(Some(Rc::clone(&netns)), Some(socket), NetnsScope::Other(netns)))
    }

    fn new(netns: Option<Rc<Netns>>, socket: Option<Socket>, scope: NetnsScope) -> Self {
        Self { netns, socket, netfilter: AutoIptables::new().within(scope.clone()), scope }
    }

    /// Reads the tables of nf_tables as a whole, and again only after a change.
    pub(crate) fn keep_tables(&mut self) {
        self.netfilter.keep_tables();
    }

    /// The packet filter for one decision, which refers to one state of kept tables: the current one.
    pub(crate) fn netfilter(&mut self) -> &mut AutoIptables {
        self.netfilter.expire();
        &mut self.netfilter
    }

    pub(crate) fn netns(&mut self) -> io::Result<&Rc<Netns>> {
        match &mut self.netns {
            Some(netns) => Ok(netns),
            none => Ok(none.insert(Rc::new(Netns::own()?))),
        }
    }

    pub(crate) fn socket(&mut self) -> Result<&mut Socket, NetlinkError> {
        match &mut self.socket {
            Some(socket) => Ok(socket),
            none => Ok(none.insert(Socket::open()?)),
        }
    }

    /// Does work that depends on the namespace of the calling thread.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.scope.run(work).and_then(|done| done)
    }
}
