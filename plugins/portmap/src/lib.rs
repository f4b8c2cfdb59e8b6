//! The portmap plugin: forwards host ports to a container.
//!
//! It follows a plugin that assigns addresses, returns that plugin's result, and changes nothing in the container.
//! There is a file for each command; `config.rs` reads the configuration, `input.rs` the rest of a call's input,
//! `iptables.rs` and `nftables.rs` have the rules, `flows.rs` the tracked connections, `contested.rs` handles ports
//! that several containers have, and `localnet.rs` protects the host's loopback address.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_model::plan::Ns;
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::{MissingPart, MissingRecords};
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod contested;
mod del;
#[cfg(test)]
mod fixtures;
mod flows;
mod input;
mod iptables;
mod localnet;
mod nftables;
mod register;

use input::{Input, NO_RESULT};

pub use contested::has_rules;
pub use register::owners_of_port;

/// The plugin.
pub struct Portmap;

impl Plugin for Portmap {
    fn kind(&self) -> &'static str {
        "portmap"
    }

    fn share(&self) -> Share {
        Share::Rules
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        config::Config::load(request).map(drop)
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

    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        del::gc(request, valid, host)
    }

    /// Asks the back end that ADD would use.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let backend = input::config_for(request, &[Family::V4], host)?.backend;
        backend.verify_available(host.netfilter(Ns::Host)?, Family::V4, IptablesTable::Nat)
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        check::find_missing(request, host)
    }

    fn find_missing_records(
        &self,
        request: &Request,
        is_next: &dyn Fn(&Attachment) -> bool,
        host: &mut dyn Host,
    ) -> Result<MissingRecords, Error> {
        contested::find_missing_records(request, &Input::read(request, NO_RESULT, host)?, is_next, host)
    }

    fn may_be_added_again(&self, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
        contested::is_added_again(at, None, host)
    }
}
