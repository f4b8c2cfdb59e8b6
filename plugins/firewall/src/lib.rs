//! The firewall plugin: lets a container's traffic through the host's packet filter.
//!
//! It follows a plugin that assigns addresses, returns that plugin's result, and changes nothing in the container. There is
//! a file for each command; `config.rs` checks the configuration, `locate.rs` finds the back end that holds the rules,
//! `claims.rs` the owner of the rules, `policy.rs` the bridge of an ingress policy, and `iptables.rs` and
//! `nftables.rs` have the rules.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::version::Version;
use cni_plugin::owner::RecordedOwner;
use cni_plugin::records::Records;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod addresses;
mod backend;
mod check;
mod claims;
mod config;
mod del;
mod gc;
mod iptables;
mod locate;
mod missing;
mod nftables;
mod policy;
mod status;

/// The plugin.
pub struct Firewall;

impl Plugin for Firewall {
    fn kind(&self) -> &'static str {
        "firewall"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_4_0
    }

    fn share(&self) -> Share {
        Share::Rules
    }

    cni_plugin::commands!(examine, add, del, check, status, gc, find_missing);

    fn owners_but(&self, known: &[&Attachment], records: &mut dyn Records) -> Result<Vec<RecordedOwner>, Error> {
        claims::owners_but(known, records)
    }
}
