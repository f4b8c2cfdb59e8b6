//! The bridge plugin: connects a container to a bridge by a veth pair, with addresses from an IPAM plugin, the bridge
//! as gateway, and a masquerade for packets that leave the network.
//!
//! `cni-interface` holds what it shares with other plugins that make interfaces. There is a file for each command;
//! `config.rs` and `vlan.rs` check the configuration, `ports.rs` finds the bridge port that is the host's end of a
//! veth, and `spoof.rs` has the rules against forged MAC addresses.

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

    cni_plugin::commands!(examine, add, del, check, status, gc, find_missing);
}
