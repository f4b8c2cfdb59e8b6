//! The bandwidth plugin: limits how fast a container receives and sends, at the host's end of its veth.
//!
//! Packets to the container wait in a token bucket of that link. Packets from the container are redirected to an ifb,
//! a link with its own token bucket.

use cni_core::version::Version;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod gc;
mod ifb;
mod limit;
mod port;
mod status;

/// The plugin.
pub struct Bandwidth;

impl Plugin for Bandwidth {
    fn kind(&self) -> &'static str {
        "bandwidth"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_3_0
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
