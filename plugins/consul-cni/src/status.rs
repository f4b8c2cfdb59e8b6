//! STATUS: whether there is an iptables that ADD could use.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_netfilter::Backend;
use cni_plugin::host::Host;
use cni_plugin::plan::Ns;

use crate::rules::TABLE;

/// Asks for the host's own table: that of a container is made by ADD.
///
/// # Errors
/// What is not available.
pub fn status(_request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    Ok(Backend::Iptables.verify_available(host.netfilter(Ns::Host)?, TABLE)?)
}
