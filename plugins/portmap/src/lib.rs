//! The portmap plugin: host ports forwarded to a container.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and never
//! enters the container. There is a file for each command; `config.rs` reads the configuration, `told.rs`
//! the rest of what a call gets, `iptables.rs` and `nftables.rs` know the rules, `flows.rs` the connections
//! that go with them, and `localnet.rs` guards the host's loopback.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::run::Plugin;

mod add;
mod check;
mod config;
mod del;
mod error;
mod flows;
mod gc;
mod iptables;
mod localnet;
mod missing;
mod nftables;
mod status;
mod told;

use error::PortmapError;

/// The plugin.
pub struct Portmap;

impl Plugin for Portmap {
    fn kind(&self) -> &'static str {
        "portmap"
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

    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        gc::gc(request, valid, host)
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        missing::find_missing(request, host)
    }
}

#[cfg(test)]
mod tests;
