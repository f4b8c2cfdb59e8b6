//! CHECK: whether everything that leads to the container is there.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::PortmapError;
use crate::missing::observe_missing;
use crate::told::Told;

/// Looks for what ADD has made.
///
/// # Errors
/// The first rule that is missing.
pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let told = Told::read(request, PortmapError::NoPrevResult, host)?;
    for target in told.mapped() {
        if let Some(missing) = observe_missing(host, &told, target)? {
            return Err(missing.into());
        }
    }
    Ok(())
}
