//! The vlan plugin: a link inside the container that sends and receives the frames of one VLAN through an interface of
//! the host (or of the container), its master.
//!
//! `cni_interface::child` holds what it shares with macvlan and ipvlan.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod gc;
mod status;

/// The plugin.
pub struct Vlan;

impl Plugin for Vlan {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}

/// The name of the plugin, and the kernel's word for such links.
const KIND: &str = "vlan";
