//! Whether a container that has a lease still uses the address, or has come back without it.
//!
//! This plugin decides it, and not the one that makes the interface: it runs in the host's namespace as that one does,
//! so it sees the same links; and it alone knows that there is a lease to be handed back, so that an ADD without one
//! does not look. It also holds for every plugin that gives its links the alias of [`cni_interface::alias`].

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_interface::earlier;
use cni_plugin::host::Host;
use cni_plugin::plan::Ns;

use crate::store::{Home, Lease, Machine};

/// The container's network namespace as it is now.
pub struct Presence<'a> {
    host: &'a mut dyn Host,
    at: &'a Attachment,
    entered: bool,
    identity: Option<String>,
    /// The host's end of the interface that kept an address from being handed back.
    in_the_way: Option<IfName>,
}

/// Where the holder of a lease is, as far as can be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It no longer uses the address, for certain.
    Left,
    /// In the namespace of the ADD, or nobody can tell.
    Here,
    /// In another namespace that lives, at the other end of this link of the host.
    Elsewhere { port: String },
}

impl<'a> Presence<'a> {
    /// Enters `CNI_NETNS`. If that fails, an address is given anyway, to whoever has no lease yet.
    ///
    /// # Errors
    /// When the kernel does not tell which namespace it is, though it could.
    pub fn observe(host: &'a mut dyn Host, netns: Option<&str>, at: &'a Attachment) -> Result<Self, Error> {
        let entered = netns.is_some_and(|path| {
            host.enter(path).inspect_err(|error| log::debug!("the container cannot be examined: {error}")).is_ok()
        });
        let identity = if entered { host.identity(Ns::Container)? } else { None };
        Ok(Self { host, at, entered, identity, in_the_way: None })
    }

    /// Where the container is now, to be recorded with its leases.
    pub fn home(&self, machine: &Machine) -> Home {
        Home { machine: machine.clone(), namespace: self.identity.clone() }
    }

    /// Where the holder of a lease of the container is. It has left when the lease was made for another namespace, or,
    /// where that is unknown, when the container does not have the address; unless the interface that was made then is
    /// still in a namespace that lives: the runtime has lost it, and who uses it has not.
    ///
    /// # Errors
    /// When the kernel does not list links and addresses.
    pub fn whereabouts(&mut self, lease: &Lease) -> Result<Whereabouts, Error> {
        if self.is_here(lease)? {
            return Ok(Whereabouts::Here);
        }
        let Some(link) = earlier::find_in_use(self.at, lease.address, self.host)? else { return Ok(Whereabouts::Left) };
        self.in_the_way = Some(IfName::parse(&link.name)?);
        Ok(Whereabouts::Elsewhere { port: link.name })
    }

    /// Waits until nothing keeps an address from being handed back: the namespace may be about to end. Returns
    /// whether that was what an allocation has failed for. It is not for whoever holds the lock of the leases.
    pub fn await_departure(&mut self) -> bool {
        self.in_the_way.take().is_some_and(|name| earlier::await_end(name, self.host))
    }

    fn is_here(&mut self, lease: &Lease) -> Result<bool, Error> {
        match (&lease.home.namespace, &self.identity) {
            (Some(then), Some(now)) => Ok(then == now),
            _ if self.entered => {
                let addresses = self.host.addresses(Ns::Container, None, None)?;
                Ok(addresses.iter().any(|address| address.cidr.address() == lease.address))
            }
            _ => Ok(true),
        }
    }
}
