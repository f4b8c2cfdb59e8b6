//! The tap plugin: a device in the container through which a program, such as a virtual machine, sends and receives
//! Ethernet frames.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod bridge;
mod check;
mod config;
mod del;
mod gc;
mod status;

/// The plugin.
pub struct Tap;

/// The kernel's word for the links that the plugin makes.
const KIND: &str = "tun";

impl Plugin for Tap {
    fn kind(&self) -> &'static str {
        "tap"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
