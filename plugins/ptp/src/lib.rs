//! The ptp plugin: a veth pair between container and host. The host's end is the container's gateway; packets are
//! routed, without a bridge.
//!
//! `gateway.rs` has the routes that connect an address by its gateway, and `occupant.rs` handles an existing route of
//! the host to the address. `cni-interface` holds what all plugins that make interfaces share.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod gateway;
mod gc;
mod missing;
mod occupant;
mod status;

/// The plugin.
pub struct Ptp;

impl Plugin for Ptp {
    fn kind(&self) -> &'static str {
        "ptp"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(examine, add, del, check, status, gc, find_missing);
}
