//! The veths of the host, for a process that asks for them again and again.
//!
//! One listing takes the kernel some milliseconds with 1000 containers. `gc` looks in it for what is left of each dead
//! container; so it keeps one as long as the kernel tells of no change. The kernel tells of no new alias while a link is
//! down: so ADD's link is listed with its alias once it is up, and whoever removes a link by its alias asks for it again.

use cni_kernel::netlink::{LinkWatch, NetlinkError, Socket};
use cni_model::link::Link;

/// The kind of link.
pub(crate) const KIND: &str = "veth";

/// A listing of the host's veths, and what tells whether it is still true.
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
