//! CHECK: verifies that every rule exists and is in its place.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_netfilter::Ruleset;
use cni_plugin::host::Host;

use crate::config::{BEHIND, redirection};
use crate::rules::ruleset;

/// Looks for what ADD has made.
pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let no_result = || fail!(InvalidConfig, "Required prevResult missing", details: "{BEHIND}");
    request.prev_result()?.ok_or_else(no_result)?;
    let wanted = Ruleset::from(ruleset(&redirection(request, host)?));
    host.enter(request.netns().unwrap_or_default())?;
    match wanted.missing(host.netfilter(Ns::Container)?)? {
        Some(missing) => Err(fail!(
            CheckFailed,
            "the container's redirection to its proxy is incomplete: missing or not in its place: {missing}",
            details: "see iptables -t nat -S in the container's namespace"
        )),
        None => Ok(()),
    }
}
