//! The firewall plugin: lets a container's traffic through the host's filter.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and never enters the
//! container. There is a file for each command; `config.rs` judges the configuration, `locate.rs` finds out what holds
//! the rules, `claims.rs` whose they are, `policy.rs` which bridge a policy is about, and `iptables.rs` and
//! `nftables.rs` know the rules.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_core::version::Version;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::run::Plugin;

mod add;
mod addresses;
mod backend;
mod check;
mod claims;
mod config;
mod del;
mod error;
mod gc;
mod iptables;
mod locate;
mod missing;
mod nftables;
mod policy;
mod status;

use error::FirewallError;

/// The plugin.
pub struct Firewall;

impl Plugin for Firewall {
    fn kind(&self) -> &'static str {
        "firewall"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_4_0
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
