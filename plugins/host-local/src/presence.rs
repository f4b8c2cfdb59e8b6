//! Whether the container that asks for an address is the one that holds it already, and has it.

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
    /// Looks at `CNI_NETNS`. A namespace that cannot be entered is no reason to refuse an address.
    pub fn observe(host: &'a mut dyn Host, netns: Option<&str>) -> Self {
        let entered = netns.is_some_and(|path| {
            host.enter(path).inspect_err(|error| log::debug!("nothing is known of the container: {error}")).is_ok()
        });
        let identity = if entered { host.container_identity() } else { None };
        Self { host, entered, identity }
    }

    /// The home of what is leased now.
    pub fn home(&self, machine: &Machine) -> Home {
        Home { machine: machine.clone(), namespace: self.identity.clone() }
    }

    /// Whether it is certain that the holder of a lease is gone: it lived in another namespace, or, where
    /// that is not known, the container is here without the address.
    ///
    /// # Errors
    /// When the kernel does not tell the addresses.
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
