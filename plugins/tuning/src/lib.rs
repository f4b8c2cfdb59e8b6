//! The tuning plugin: writes kernel parameters of the container, and changes the MAC address, the MTU and other
//! properties of the interface that an earlier plugin has made. DEL restores them.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod allow;
mod announce;
mod backup;
mod changes;
mod check;
mod config;
mod del;
mod gc;
mod properties;
mod status;
mod sysctl;

/// The plugin.
pub struct Tuning;

impl Plugin for Tuning {
    fn kind(&self) -> &'static str {
        "tuning"
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
