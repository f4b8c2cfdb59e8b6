//! The dummy plugin: a link inside the container that has addresses, and drops what it is to send. Services
//! of the container itself are reached there.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

mod add;
mod check;
mod config;
mod del;
mod gc;
mod status;

/// The plugin.
pub struct Dummy;

impl Plugin for Dummy {
    fn kind(&self) -> &'static str {
        "dummy"
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

    fn gc(&self, request: &Request, _valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        gc::gc(request, host)
    }
}

#[cfg(test)]
mod tests;
