//! The host-local IPAM plugin: addresses from ranges, kept as files.
//!
//! There is a file for each command. `config.rs`, `requested.rs`, `ranges.rs` and `resolv_conf.rs` read what is asked
//! for, `presence.rs` knows whether a container still uses its address, `allocate.rs` chooses addresses, and `store.rs`
//! keeps the leases; it alone touches the disk.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

mod add;
mod allocate;
mod check;
mod config;
mod del;
mod gc;
mod presence;
mod ranges;
mod requested;
mod resolv_conf;
mod status;
mod store;

#[cfg(test)]
#[path = "../tests/common/request.rs"]
mod fake_request;

/// The plugin.
pub struct HostLocal;

impl Plugin for HostLocal {
    fn kind(&self) -> &'static str {
        "host-local"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        add::add(request, journal)
    }

    fn del(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        del::del(request)
    }

    fn check(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        check::check(request)
    }

    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        status::status(request)
    }

    fn gc(&self, request: &Request, valid: &ValidAttachments, _host: &mut dyn Host) -> Result<(), Error> {
        gc::gc(request, valid)
    }
}
