//! The loopback plugin: sets `lo` of a container up, and reports the addresses that the kernel gives it.
//!
//! `CNI_IFNAME` is required but not used: the interface is always `lo`. A `prevResult` is passed through
//! unchanged.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

mod add;
mod check;
mod del;
mod error;
mod lo;

/// The plugin.
pub struct Loopback;

impl Plugin for Loopback {
    fn kind(&self) -> &'static str {
        "loopback"
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
}

#[cfg(test)]
mod tests;
