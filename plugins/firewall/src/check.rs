//! CHECK: verifies that everything that lets the container's traffic through exists.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::add::rulesets;
use crate::addresses::{addresses, prev_result};
use crate::config::Config;
use crate::locate;
use crate::missing::observe_missing;

/// Looks for what ADD has made.
pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let prev_result = prev_result(request)?;
    let addresses = locate::observe_claims(&addresses(&prev_result), host)?;
    for (backend, addresses) in locate::observe_backends(&config, &request.attachment()?, addresses, host)? {
        let rulesets = rulesets(&config, &backend, &addresses, &prev_result)?;
        if let Some(missing) = observe_missing(&backend, &addresses, &rulesets, host)? {
            return Err(missing.into());
        }
    }
    Ok(())
}
