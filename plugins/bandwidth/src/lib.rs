//! The bandwidth plugin: limits how fast a container receives and sends, at the host's end of its veth.
//!
//! What it receives waits in a token bucket of that link. What it sends is led to an ifb first, a link with a bucket of
//! its own.

use cni_core::version::Version;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod error;
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

    cni_plugin::commands!(add, del, check, status, gc);
}

#[cfg(test)]
mod tests;
