//! The static IPAM plugin: hands out the addresses of its configuration, and remembers nothing.
//!
//! Nothing of the machine is looked at. There is a file for each command but DEL, which has nothing to do; `config.rs`
//! reads the addresses of all sources.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
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

    fn add(&self, request: &Request, _journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        add::add(request)
    }

    /// Nothing was reserved.
    fn del(&self, _request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        Ok(())
    }

    fn check(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        check::check(request)
    }

    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        status::status(request)
    }
}

#[cfg(test)]
mod tests;
