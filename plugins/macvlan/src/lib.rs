//! The macvlan plugin: a link inside the container that has a MAC address of its own, and sends and receives by an
//! interface of the host (or of the container), its master.
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
pub struct Macvlan;

impl Plugin for Macvlan {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(add, del, check, status, gc);
}

/// The name of the plugin, and the kernel's word for such links.
const KIND: &str = "macvlan";

#[cfg(test)]
mod tests;
