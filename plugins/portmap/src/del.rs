//! DEL: it needs nothing but the names of the attachment. What else it is told only makes it faster. Both
//! backends are cleaned, whichever the configuration names by now.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_netfilter::flows::{PortChange, StaleFlows};
use cni_netfilter::{Backend, RuleRemoval};
use cni_plugin::host::Host;
use cni_plugin::plan::{Plan, Step};
use cni_plugin::removal::Removal;

use crate::config::Config;
use crate::{flows, iptables, nftables, told};

/// Removes what a container has. What fails does not keep the rest.
///
/// # Errors
/// The first failure, with notes of the others.
pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let prev_result = logged("prevResult", request.prev_result().map_err(Error::from)).flatten();
    let targets = prev_result.map(|result| told::targets(&result, &at.ifname)).unwrap_or_default();
    let config = logged("its configuration", told::config(request, &targets, host));
    let mut removal = Removal::new(host);
    removal.attempt(|host| match &config {
        Some(Config { backend: Backend::Nftables, .. }) => iptables::del(host, &at, None, &[]),
        Some(Config { backend: Backend::Iptables, .. }) | None => iptables::del(host, &at, config.as_ref(), &targets),
    });
    let flows: Vec<StaleFlows> = config.as_ref().map_or_else(Vec::new, |config| {
        targets.iter().filter_map(|target| flows::of_mappings(PortChange::Unmapped, config, *target)).collect()
    });
    removal.attempt(|host| nftables::del(host, &at, &flows));
    removal.finish()
}

/// What DEL can do without is logged when it is of no use.
fn logged<T>(what: &str, found: Result<T, Error>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            log::warn!("DEL skips {what}: {error}: {}", error.details());
            None
        }
    }
}

/// Removes rules, and then lets the kernel forget the connections that they have led to the container: before,
/// the rules would lead the next packet there again.
pub fn remove_with_flows(host: &mut dyn Host, rules: RuleRemoval, flows: Vec<StaleFlows>) -> Result<(), Error> {
    let mut plan = Plan::default();
    plan.owned(Step::remove_rules(rules));
    flows.into_iter().for_each(|stale| plan.shared(Step::ForgetFlows(stale)));
    let mut removal = Removal::new(host);
    removal.in_order(&plan);
    removal.finish()
}
