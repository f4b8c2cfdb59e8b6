//! The loopback plugin: sets `lo` of a container up, and returns the addresses that the kernel gives it.
//!
//! `CNI_IFNAME` is required but not used: the interface is always `lo`. A `prevResult` is returned unchanged.

use cni_plugin::run::Plugin;

mod add;
mod check;
mod del;
mod lo;

/// The plugin.
pub struct Loopback;

impl Plugin for Loopback {
    fn kind(&self) -> &'static str {
        "loopback"
    }

    cni_plugin::commands!(add, del, check);
}
