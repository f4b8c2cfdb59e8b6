//! STATUS: checks that the back end can hold the rules.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_netfilter::Backend;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;

use crate::backend::RuleBackend;
use crate::config::Config;
use crate::locate;
use crate::policy::IngressPolicy;

/// Asks the back end that ADD would use: firewalld, iptables or nf_tables.
pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let held_by = locate::choose(&config, [Family::V4], host)?;
    if matches!(held_by, Some(RuleBackend::Firewalld(_))) && !host.firewalld().is_running() {
        let details = "firewalld does not answer on the system bus";
        return Err(fail!(NotAvailable, "backend firewalld is not available", details: "{details}"));
    }
    let backend = match held_by {
        None => return Ok(()),
        Some(RuleBackend::Firewalld(_)) if config.policy == IngressPolicy::Open => return Ok(()),
        Some(RuleBackend::Nftables) => Backend::Nftables,
        Some(RuleBackend::Iptables | RuleBackend::Firewalld(_)) => Backend::Iptables,
    };
    backend.verify_available(host.netfilter(Ns::Host)?, Family::V4, IptablesTable::Filter)
}
