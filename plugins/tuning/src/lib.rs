//! The tuning plugin: writes kernel parameters of the container, and changes the MAC address, the MTU and other
//! properties of the interface that a plugin before it has made. DEL sets them back.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

mod add;
mod allow;
mod backup;
mod check;
mod config;
mod del;
mod error;
mod properties;
mod status;
mod sysctl;

/// The plugin.
pub struct Tuning;

impl Plugin for Tuning {
    fn kind(&self) -> &'static str {
        "tuning"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        add::add(request, journal)
    }

    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        del::del(request, host)
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        check::check(request, host)
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        status::status(request, host)
    }
}

#[cfg(test)]
mod tests;
