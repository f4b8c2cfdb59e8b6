//! The ipvlan plugin: a link inside the container that has the MAC address of an interface of the host (or of the
//! container), its master, and addresses of its own, by which the kernel tells whose a packet is.
//!
//! What it shares with other links on a master is in `cni_interface::child`.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod gc;
mod status;

/// The plugin.
pub struct Ipvlan;

impl Plugin for Ipvlan {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(add, del, check, status, gc);
}

/// The name of the plugin, and the kernel's word for such links.
const KIND: &str = "ipvlan";

#[cfg(test)]
mod tests;
