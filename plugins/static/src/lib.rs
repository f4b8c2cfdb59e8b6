//! The static IPAM plugin: returns the configured addresses, and keeps no state.
//!
//! It does not look at the machine. There is a file for each command except DEL, which has nothing to do; `config.rs`
//! reads the addresses of all sources.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;
use cni_plugin::run::Plugin;

mod add;
mod check;
mod config;
mod status;

/// The plugin.
pub struct Static;

impl Plugin for Static {
    fn kind(&self) -> &'static str {
        "static"
    }

    cni_plugin::commands!(examine, add, check, status);

    /// Nothing was reserved.
    fn del(&self, _request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        Ok(())
    }
}
