//! Finds rules that are missing in the container, for `repair`.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;

use crate::config::redirection;
use crate::rules::ruleset;

/// The rules, if they are not complete.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let wanted = ruleset(&redirection(request, host)?);
    Ok(MissingPart::find(Ns::Container, wanted, host)?.into_iter().collect())
}
