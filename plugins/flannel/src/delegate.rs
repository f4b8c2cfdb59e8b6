//! The delegate's configuration after ADD, for `doctor`, `repair` and `trace`.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config::{Config, data_dir_for_del};
use crate::delegate_config::DelegateConfig;
use crate::lease::SubnetLease;
use crate::state;

/// The configuration with which the delegate of an attachment was called. If the state file is missing or torn, it is composed from
/// the lease. Without a lease it is unknown, since the lease says who masquerades.
///
/// # Errors
/// When a state file exists and cannot be read, or when it is missing and the configuration of the plugin cannot be used.
pub fn delegate_of(request: &Request, host: &mut dyn Host) -> Result<Option<DelegateConfig>, Error> {
    if let Some(kept) = state::saved(&data_dir_for_del(request), &request.attachment()?, host)? {
        return Ok(Some(kept));
    }
    let config = Config::load(request)?;
    let Ok(lease) = SubnetLease::load(&config.subnet_file, host) else { return Ok(None) };
    Ok(Some(DelegateConfig::new(&config, &lease)?))
}
