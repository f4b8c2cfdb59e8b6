//! The bridge plugin: joins a container to a bridge by a veth, with addresses from an IPAM plugin, the
//! bridge as gateway, and a masquerade for what leaves the network.
//!
//! What it shares with other plugins that make interfaces is in `cni-interface`. There is a file for each
//! command; `config.rs` and `vlan.rs` check the configuration, `ports.rs` knows the port of the bridge that is the
//! host's end of a veth, and `spoof.rs` the rules against frames with another's MAC address.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

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

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(add, del, check, status, gc, find_missing);
}

#[cfg(test)]
mod tests;
