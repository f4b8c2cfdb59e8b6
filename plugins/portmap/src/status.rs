//! STATUS: checks that the back end that ADD would use is available.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;

use crate::input;

/// Asks iptables or nf_tables.
pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let backend = input::config_for(request, &[Family::V4], host)?.backend;
    backend.verify_available(host.netfilter(Ns::Host)?, Family::V4, IptablesTable::Nat)
}
