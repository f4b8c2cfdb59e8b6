//! What others have removed of a container's port mappings, and of the guard of the host's loopback.
//!
//! Kernel settings are no rules: `route_localnet` stays as it is found.

use cni_core::cidr::Cidr;
use cni_core::error::{Error, Failure};
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_plugin::host::Host;
use cni_plugin::plan::{Plan, Step};
use cni_plugin::repair::{Lack, native};

use crate::config::{Backend, Config};
use crate::missing::observe_missing;
use crate::{PortmapError, load, localnet, nftables, observe_link, plan};

/// The rules of an attachment that are not complete, and the guard if it needs one.
///
/// # Errors
/// When a packet filter cannot be read.
pub fn lacks(request: &Request, host: &mut dyn Host) -> Result<Vec<Lack>, Error> {
    let config = load(request, host)?;
    let prev_result = request.prev_result()?.ok_or(PortmapError::NoPrevResult)?;
    let at = request.attachment()?;
    let targets = plan::targets(&prev_result, &at.ifname);
    let mut lacks = Vec::new();
    if let Some(target) = plan::localnet_target(&config, &targets)
        && observe_link(host, target)?.is_some()
    {
        lacks.extend(guard_lack(host)?);
    }
    for target in plan::mapped(&config, &targets) {
        lacks.extend(mapping_lack(&config, &at, target, host)?);
    }
    Ok(lacks)
}

/// As in ADD, a host without nf_tables has no guard.
fn guard_lack(host: &mut dyn Host) -> Result<Option<Lack>, Error> {
    let want = localnet::guard();
    match cni_netfilter::nftables::missing(host.nftables(), &want).map(|rule| rule.map(native)) {
        Ok(Some(missing)) => {
            let mut plan = Plan::default();
            plan.shared(Step::EnsureNftables(want));
            Ok(Some(Lack { missing, plan }))
        }
        Ok(None) => Ok(None),
        Err(error) if error.is_unavailable() => {
            log::warn!("containers can reach what listens on the host's loopback: {error}: {}", error.details());
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// What the reference has made counts as complete, as in CHECK, and goes where it is not.
fn mapping_lack(config: &Config, at: &Attachment, target: Cidr, host: &mut dyn Host) -> Result<Option<Lack>, Error> {
    let missing = observe_missing(host, config, at, target)?;
    let Some(missing) = missing else { return Ok(None) };
    let mut plan = Plan::default();
    if config.backend == Backend::Nftables
        && let Some(unwanted) = nftables::observe_superseded(host, config, at, target.family())?
    {
        plan.within(Step::RemoveNftables(unwanted));
    }
    plan::lead(&mut plan, config, at, target);
    Ok(Some(Lack { missing: missing.made(), plan }))
}
