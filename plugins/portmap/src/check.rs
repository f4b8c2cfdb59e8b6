//! CHECK: verifies that every rule of the mappings exists.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::input::{Input, NO_RESULT};
use crate::missing::observe_missing;

/// Looks for what ADD has made.
pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let input = Input::read(request, NO_RESULT, host)?;
    for target in input.mapped() {
        if let Some(missing) = observe_missing(host, &input, target)? {
            return Err(missing.into());
        }
    }
    Ok(())
}
