//! The ipvlan plugin: a link inside the container that shares the MAC address of an interface of the host (or of the
//! container), its master. The kernel assigns packets to links by IP address.
//!
//! `cni_interface::child` holds what it shares with macvlan and vlan.

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

    cni_plugin::commands!(examine, add, del, check, status, gc);
}

/// The name of the plugin, and the kernel's word for such links.
const KIND: &str = "ipvlan";
