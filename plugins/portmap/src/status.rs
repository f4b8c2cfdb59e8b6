//! STATUS: whether the backend that ADD would use is there.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;

use crate::told;

/// Asks iptables or nf_tables.
///
/// # Errors
/// What is not available, or a configuration that ADD would refuse.
pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let backend = told::config_for(request, &[Family::V4], host)?.backend;
    Ok(backend.verify_available(host.netfilter(Ns::Host)?, IptablesTable::Nat)?)
}
