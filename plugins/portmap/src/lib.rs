//! The portmap plugin: host ports forwarded to a container.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and changes nothing
//! in the container. There is a file for each command; `config.rs` reads the configuration, `told.rs`
//! the rest of what a call gets, `iptables.rs` and `nftables.rs` know the rules, `flows.rs` the connections
//! that go with them, `contested.rs` what becomes of ports that several containers have, and `localnet.rs` guards the
//! host's loopback.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod chains;
mod check;
mod config;
mod contested;
mod del;
mod error;
#[cfg(test)]
mod fixtures;
mod flows;
mod gc;
mod iptables;
mod localnet;
mod missing;
mod nftables;
mod published;
mod register;
mod status;
mod told;

use error::PortmapError;

/// The plugin.
pub struct Portmap;

impl Plugin for Portmap {
    fn kind(&self) -> &'static str {
        "portmap"
    }

    fn share(&self) -> Share {
        Share::Rules
    }

    cni_plugin::commands!(add, del, check, status, gc, find_missing);
}

#[cfg(test)]
mod tests;
