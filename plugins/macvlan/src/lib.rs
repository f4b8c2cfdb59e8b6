//! The macvlan plugin: a link inside the container, with its own MAC address, that sends and receives through an
//! interface of the host (or of the container), its master.
//!
//! `cni_interface::child` holds what it shares with vlan and ipvlan.

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

    cni_plugin::commands!(examine, add, del, check, status, gc);
}

/// The name of the plugin, and the kernel's word for such links.
const KIND: &str = "macvlan";
