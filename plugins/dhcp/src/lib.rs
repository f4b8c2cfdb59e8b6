//! The dhcp plugin: addresses from a DHCP server. The plugin asks a daemon, which is the same program. The daemon
//! talks to servers, and keeps leases as long as the containers live.
//!
//! This crate only decides: the effects of the daemon go through [`daemon::DaemonHost`].

#![forbid(unsafe_code)]

use cni_plugin::run::Plugin;

mod add;
mod answer;
mod ask;
mod check;
pub mod client;
mod config;
pub mod daemon;
mod del;
mod gc;
pub mod grant;
pub mod key;
pub mod moment;
pub mod protocol;
pub mod record;
mod status;
pub mod wire;

pub use config::leases_of;

/// The plugin.
pub struct Dhcp;

impl Plugin for Dhcp {
    fn kind(&self) -> &'static str {
        "dhcp"
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
