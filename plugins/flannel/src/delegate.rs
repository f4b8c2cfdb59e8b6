//! The delegate's configuration for whoever asks after ADD: what ADD has kept, or else what is composed again.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::compose::Composed;
use crate::config::{Config, data_dir_for_del};
use crate::lease::Lease;
use crate::state;

/// The configuration with which the delegate of an attachment was called. If the state file is lost or torn, it is composed from
/// the lease; without a lease it is not known, since the lease says who masquerades.
///
/// # Errors
/// When a state file is there and cannot be read, or there is none and the configuration of the plugin cannot be used.
pub fn delegate_of(request: &Request, host: &mut dyn Host) -> Result<Option<Composed>, Error> {
    if let Some(kept) = state::saved(&data_dir_for_del(request), &request.attachment()?, host)? {
        return Ok(Some(kept));
    }
    let config = Config::load(request)?;
    let Ok(lease) = Lease::load(&config.subnet_file, host) else { return Ok(None) };
    Ok(Some(Composed::new(&config, &lease)?))
}
