//! The tc-redirect-tap plugin: creates a tap device in the container, and exchanges all frames between it and the
//! interface `CNI_IFNAME`, which an earlier plugin has made. A virtual machine that opens the device takes over that
//! interface's MAC address and IP addresses, which the result names.

use cni_core::version::Version;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod args;
mod check;
mod config;
mod del;
mod guest;
mod missing;
mod name;
mod pair;
mod status;

/// The plugin.
pub struct TcRedirectTap;

/// The kernel's word for tap devices.
const KIND: &str = "tun";

impl Plugin for TcRedirectTap {
    fn kind(&self) -> &'static str {
        "tc-redirect-tap"
    }

    /// The original has no releases.
    fn reference_level(&self) -> &'static str {
        "0.0.0"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_3_0
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    cni_plugin::commands!(examine, add, del, check, status, find_missing);
}
