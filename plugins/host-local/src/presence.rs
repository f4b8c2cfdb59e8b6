//! Tells whether a container that has a lease still uses the address, or has come back in another namespace.
//!
//! This plugin decides first, and the one that makes the interface looks again (`cni_interface::ipam`). It runs in the host's namespace too, so it
//! sees the same links, and only it knows whether there is a lease to assign again; an ADD without one does not look. It
//! works with every plugin that sets the alias of [`cni_interface::alias`].

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_interface::earlier::{self, AddressInUse};
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::store::{Lease, LeaseOrigin, MachineIdentity};

/// The container's network namespace as it is now.
pub struct CurrentNamespace<'a> {
    host: &'a mut dyn Host,
    at: &'a Attachment,
    is_entered: bool,
    identity: Option<String>,
    /// The host's end of the interface that kept an address from being handed back.
    in_the_way: Option<IfName>,
}

/// The location of a lease's holder, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderLocation {
    /// It no longer uses the address, for certain.
    Left,
    /// In the namespace of the ADD, or unknown.
    Here,
    /// In another namespace that lives, and what leads there: a link of the host, or a path, or a phrase with a path that once did.
    Elsewhere(String),
}

impl<'a> CurrentNamespace<'a> {
    /// Enters `CNI_NETNS`. If that fails, a container without a lease still gets an address.
    ///
    /// # Errors
    /// If the kernel cannot identify the namespace, although it should be able to.
    pub fn observe(host: &'a mut dyn Host, netns: Option<&str>, at: &'a Attachment) -> Result<Self, Error> {
        let enter = |path| {
            host.enter(path).inspect_err(|error| log::debug!("the container cannot be examined: {error}")).is_ok()
        };
        let is_entered = netns.is_some_and(enter);
        let identity = if is_entered { host.namespaces().identity(Ns::Container)? } else { None };
        Ok(Self { host, at, is_entered, identity, in_the_way: None })
    }

    /// The origin of leases that are made now.
    pub fn home(&self, machine: &MachineIdentity) -> LeaseOrigin {
        LeaseOrigin { machine: machine.clone(), namespace: self.identity.clone() }
    }

    /// The location of the holder of a lease of the container. It has left if the lease was made for another namespace,
    /// or, if that is unknown, if the container does not have the address. It has not left if the interface that was
    /// made then is still in a namespace that exists: the runtime has lost it, but processes in it have not.
    pub fn whereabouts(&mut self, lease: &Lease) -> Result<HolderLocation, Error> {
        if self.is_here(lease)? {
            return Ok(HolderLocation::Here);
        }
        if let Some(link) = earlier::find_in_use(self.at, lease.address, self.host)? {
            self.in_the_way = Some(IfName::parse(&link.name)?);
            return Ok(HolderLocation::Elsewhere(format!("which {} of the host leads to", link.name)));
        }
        let mut found = earlier::find_recorded(self.at, &[lease.address], self.host)?;
        // Interfaces other than veths have no other end on the host that would show a process in the namespace.
        if let (None, Some(then)) = (&found, &lease.home.namespace) {
            found = earlier::find_by_process(then, &[lease.address], self.host)?;
        }
        let elsewhere = |found: AddressInUse| HolderLocation::Elsewhere(format!("which is {}", found.place));
        Ok(found.map_or(HolderLocation::Left, elsewhere))
    }

    /// Waits until an address can be assigned again: the namespace may be about to end. Returns whether the allocation
    /// failed for that reason. The caller must not hold the lock of the leases.
    pub fn await_departure(&mut self) -> bool {
        self.in_the_way.take().is_some_and(|name| earlier::await_end(name, self.host))
    }

    fn is_here(&mut self, lease: &Lease) -> Result<bool, Error> {
        match (&lease.home.namespace, &self.identity) {
            (Some(then), Some(now)) => Ok(then == now),
            _ if self.is_entered => {
                let addresses = self.host.addresses(Ns::Container, None, None)?;
                Ok(addresses.iter().any(|address| address.cidr.address() == lease.address))
            }
            _ => Ok(true),
        }
    }
}
