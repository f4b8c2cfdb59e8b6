//! STATUS: whether ADD would take the configuration, and there is an iptables that it could use.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_netfilter::Backend;
use cni_plugin::host::Host;

use crate::config::verify_keys;
use crate::rules::TABLE;

/// Asks for the host's own table: that of a container is made by ADD.
///
/// # Errors
/// What is not available, or a configuration that ADD would refuse.
pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    verify_keys(request)?;
    Ok(Backend::Iptables.verify_available(host.netfilter(Ns::Host)?, TABLE)?)
}
