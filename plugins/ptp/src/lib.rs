//! The ptp plugin: a veth pair between container and host, whose host's end is the container's gateway. Packets are
//! routed, and no bridge joins the containers.
//!
//! `gateway.rs` and `occupant.rs` are what it has beyond what all plugins share that make interfaces: which routes
//! connect an address by its gateway, and what to do if the host has a route to the address already.

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

    cni_plugin::commands!(add, del, check, status, gc, find_missing);
}

#[cfg(test)]
mod tests;
