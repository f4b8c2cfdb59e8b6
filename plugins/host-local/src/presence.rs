//! Whether a container that has a lease still uses the address, or has come back without it.

use cni_core::error::Error;
use cni_plugin::host::Host;
use cni_plugin::plan::Ns;

use crate::store::{Home, Lease, Machine};

/// The container's network namespace as it is now.
pub struct Presence<'a> {
    host: &'a mut dyn Host,
    entered: bool,
    identity: Option<String>,
}

impl<'a> Presence<'a> {
    /// Enters `CNI_NETNS`. If that fails, an address is given anyway, to whoever has no lease yet.
    ///
    /// # Errors
    /// When the kernel does not tell which namespace it is, though it could.
    pub fn observe(host: &'a mut dyn Host, netns: Option<&str>) -> Result<Self, Error> {
        let entered = netns.is_some_and(|path| {
            host.enter(path).inspect_err(|error| log::debug!("the container cannot be examined: {error}")).is_ok()
        });
        let identity = if entered { host.identity(Ns::Container)? } else { None };
        Ok(Self { host, entered, identity })
    }

    /// Where the container is now, to be recorded with its leases.
    pub fn home(&self, machine: &Machine) -> Home {
        Home { machine: machine.clone(), namespace: self.identity.clone() }
    }

    /// Whether it is certain that a lease is no longer in use: it was made for another namespace, or, where that
    /// is unknown, the container does not have the address.
    ///
    /// # Errors
    /// When the kernel does not list the addresses.
    pub fn has_left(&mut self, lease: &Lease) -> Result<bool, Error> {
        match (&lease.home.namespace, &self.identity) {
            (Some(then), Some(now)) => Ok(then != now),
            _ if self.entered => {
                let addresses = self.host.addresses(Ns::Container, None, None)?;
                Ok(addresses.iter().all(|address| address.cidr.address() != lease.address))
            }
            _ => Ok(false),
        }
    }
}
