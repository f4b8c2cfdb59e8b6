//! CHECK: verifies that every rule exists and is in its place.

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_netfilter::{MissingRule, Ruleset};
use cni_plugin::host::Host;

use crate::config::redirection;
use crate::error::ConsulError;
use crate::rules::ruleset;

/// The first rule that is missing, or after a rule that it must precede.
#[derive(Debug, thiserror::Error)]
#[error("the container's redirection to its proxy is incomplete: missing or not in its place: {0}")]
pub struct NotInPlace(MissingRule);

impl Failure for NotInPlace {
    fn code(&self) -> Code {
        Code::CheckFailed
    }

    fn details(&self) -> String {
        "see iptables -t nat -S in the container's namespace".to_owned()
    }
}

/// Looks for what ADD has made.
pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    request.prev_result()?.ok_or(ConsulError::NoPrevResult)?;
    let wanted = Ruleset::from(ruleset(&redirection(request, host)?));
    host.enter(request.netns().unwrap_or_default())?;
    match wanted.missing(host.netfilter(Ns::Container)?)? {
        Some(missing) => Err(NotInPlace(missing).into()),
        None => Ok(()),
    }
}
