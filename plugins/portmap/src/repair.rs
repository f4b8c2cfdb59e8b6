//! What others have removed of a container's port mappings, and of the guard of the host's loopback.
//!
//! Kernel settings are no rules: `route_localnet` stays as it is found.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_netfilter::flows::PortChange;
use cni_netfilter::{Backend, Ruleset, unless_absent};
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::{Ns, Plan, Step};

use crate::config::Config;
use crate::missing::observe_missing;
use crate::{localnet, nftables, observe_link, plan, told};

/// The rules of an attachment that are not complete, and the guard if it needs one.
///
/// # Errors
/// When a packet filter cannot be read.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let (config, at, targets) = told(request, host)?;
    let mut parts = Vec::new();
    if let Some(target) = plan::localnet_target(&config, &targets)
        && observe_link(host, target)?.is_some()
    {
        parts.extend(missing_guard(host)?);
    }
    for target in plan::mapped(&config, &targets) {
        parts.extend(missing_mapping(&config, &at, target, host)?);
    }
    Ok(parts)
}

/// As in ADD, a host without nf_tables has no guard.
fn missing_guard(host: &mut dyn Host) -> Result<Option<MissingPart>, Error> {
    let guard = Ruleset::from(localnet::guard());
    let Some(missing) = unless_absent(guard.missing(host.netfilter(Ns::Host)?))? else {
        log::warn!("containers can reach what listens on the host's loopback: there are no nf_tables for the guard");
        return Ok(None);
    };
    Ok(missing.map(|missing| {
        let mut plan = Plan::default();
        plan.shared(Step::ensure_rules(guard));
        MissingPart { missing: missing.to_string(), plan }
    }))
}

/// What the reference has made counts as complete, as in CHECK, and goes where it is not.
fn missing_mapping(
    config: &Config,
    at: &Attachment,
    target: Cidr,
    host: &mut dyn Host,
) -> Result<Option<MissingPart>, Error> {
    let missing = observe_missing(host, config, at, target)?;
    let Some(missing) = missing else { return Ok(None) };
    let mut plan = Plan::default();
    if config.backend == Backend::Nftables
        && let Some(unwanted) = nftables::observe_superseded(host, config, at, target.family())?
    {
        plan.within(Step::remove_rules(unwanted));
    }
    plan::lead(&mut plan, config, at, target, PortChange::Restored);
    Ok(Some(MissingPart { missing: missing.made(), plan }))
}
