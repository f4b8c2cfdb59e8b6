//! The portmap plugin: forwards host ports to a container.
//!
//! It follows a plugin that assigns addresses, returns that plugin's result, and changes nothing in the container.
//! There is a file for each command; `config.rs` reads the configuration, `input.rs` the rest of a call's input,
//! `iptables.rs` and `nftables.rs` have the rules, `flows.rs` the tracked connections, `contested.rs` handles ports
//! that several containers have, and `localnet.rs` protects the host's loopback address.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_plugin::host::Host;
use cni_plugin::owner::RecordedOwner;
use cni_plugin::records::Records;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod chains;
mod check;
mod config;
mod contested;
mod del;
#[cfg(test)]
mod fixtures;
mod flows;
mod gc;
mod input;
mod iptables;
mod localnet;
mod missing;
mod nftables;
mod published;
mod register;
mod status;

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

    cni_plugin::commands!(examine, add, del, check, status, gc, find_missing, find_missing_records);

    fn owners_but(&self, known: &[&Attachment], records: &mut dyn Records) -> Result<Vec<RecordedOwner>, Error> {
        register::owners_but(known, records)
    }

    fn may_be_added_again(&self, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
        contested::is_added_again(at, None, host)
    }
}
