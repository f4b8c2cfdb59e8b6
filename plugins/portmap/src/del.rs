//! DEL: needs only the names of the attachment. Everything else only makes it faster. It removes the rules from both
//! back ends, whatever the configuration names now. So does GC, for what belongs to no valid attachment of the network.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_netfilter::Backend;
use cni_netfilter::flows::{PortChange, StaleFlows};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::config::{Config, Keys};
use crate::{contested, flows, input, iptables, nftables};

/// Removes the attachment. Every part is tried; if one fails, the ports stay recorded.
pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let prev_result = logged("prevResult", request.prev_result()).flatten();
    let targets = prev_result.map(|result| input::targets(&result, &at.ifname)).unwrap_or_default();
    let config = logged("its configuration", input::config(request, &targets, host));
    let mut removal = Removal::new(host);
    let from_iptables = removal.attempt(|host| match &config {
        Some(Config { backend: Backend::Nftables, .. }) => iptables::del(host, &at, None, &[]),
        Some(Config { backend: Backend::Iptables, .. }) | None => iptables::del(host, &at, config.as_ref(), &targets),
    });
    let flows: Vec<StaleFlows> = config.as_ref().map_or_else(Vec::new, |config| {
        targets.iter().filter_map(|target| flows::of_mappings(PortChange::Unmapped, config, *target)).collect()
    });
    let known = config.as_ref().map_or_else(Vec::new, |config| known_in_nftables(request, config, &targets));
    let from_nftables = removal.attempt(|host| nftables::del(host, &at, &flows, &known));
    if from_iptables.is_some() && from_nftables.is_some() {
        let mapped = config.iter().flat_map(|config| config.mappings.iter().map(|mapping| mapping.host_port));
        removal.attempt(|host| contested::forget(&at, mapped, host));
    }
    removal.finish()
}

/// Removes what is stale. A backend or a family that fails does not keep the others.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    let from_iptables = removal.attempt(|host| iptables::gc(host, &request.network, valid));
    let from_nftables = removal.attempt(|host| nftables::gc(host, &request.network, valid));
    if from_iptables.is_some() && from_nftables.is_some() {
        removal.attempt(|host| contested::forget_stale(&request.network, valid, host));
    }
    removal.finish()
}

/// The families in which the container has rules in nf_tables for certain, since nothing else was asked for.
fn known_in_nftables(request: &Request, config: &Config, targets: &[Cidr]) -> Vec<Family> {
    let is_reported = request.decode::<Keys>().is_ok_and(|keys| keys.names_backend());
    let mapped = targets.iter().map(|target| target.family()).filter(|family| config.maps(*family));
    mapped.filter(|_| is_reported && config.backend == Backend::Nftables).collect()
}

/// Logs an error about input that DEL can do without.
fn logged<T>(what: &str, found: Result<T, Error>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            log::warn!("DEL skips {what}: {error}: {}", error.details());
            None
        }
    }
}
