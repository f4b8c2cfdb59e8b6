//! STATUS: checks the configuration, and that there is a usable iptables.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_netfilter::Backend;
use cni_plugin::host::Host;

use crate::config::verify_keys;
use crate::entry::FAMILY;
use crate::rules::TABLE;

/// Asks for the host's own table: that of a container is made by ADD.
pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    verify_keys(request)?;
    Backend::Iptables.verify_available(host.netfilter(Ns::Host)?, FAMILY, TABLE)
}
