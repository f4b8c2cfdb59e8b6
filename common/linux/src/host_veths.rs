//! The veths of the host, for a process that asks for them again and again.
//!
//! One listing takes the kernel some milliseconds with 1000 containers. `gc` looks in it for what is left of each dead
//! container; so it keeps the listing until the kernel reports a change. The kernel does not report a new alias of a link that
//! is down. So a link of ADD may be listed without its alias until it is up, and before a link is removed by its alias, it is read again.

use cni_kernel::netlink::{LinkWatch, NetlinkError, Socket};
use cni_model::link::Link;

/// The kind of link.
pub(crate) const KIND: &str = "veth";

/// A listing of the host's veths, and a watch for changes.
#[derive(Debug, Default)]
pub(crate) struct HostVeths {
    listed: Option<Vec<Link>>,
    /// `None` until the first listing.
    watch: Option<LinkWatch>,
}

impl HostVeths {
    /// The veths as they are now. The socket belongs to the namespace that the calling thread is in.
    pub(crate) fn list(&mut self, socket: &mut Socket) -> Result<Vec<Link>, NetlinkError> {
        if self.watch.is_none() {
            self.watch =
                LinkWatch::open().inspect_err(|error| log::debug!("changes of links cannot be watched: {error}")).ok();
        }
        let may_have_changed = self.watch.as_mut().is_none_or(LinkWatch::has_changed);
        if let Some(listed) = self.listed.as_ref().filter(|_| !may_have_changed) {
            return Ok(listed.clone());
        }
        self.listed = None;
        let listed = socket.links_of_kind(KIND)?;
        Ok(self.listed.insert(listed).clone())
    }
}
