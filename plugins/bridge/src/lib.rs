//! The bridge plugin: joins a container to a bridge by a veth, with addresses from an IPAM plugin, the
//! bridge as gateway, and a masquerade for what leaves the network.
//!
//! What it shares with other plugins that make interfaces is in `cni-interface`. There is a file for each
//! command; `config.rs` and `vlan.rs` judge the configuration, `ports.rs` knows the port of the bridge that is the
//! host's end of a veth, and `spoof.rs` the rules against frames with another's MAC address.

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
#[cfg(test)]
mod fixtures;
mod gc;
mod missing;
mod ports;
mod spoof;
mod status;
mod vlan;

/// The plugin.
pub struct Bridge;

impl Plugin for Bridge {
    fn kind(&self) -> &'static str {
        "bridge"
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
