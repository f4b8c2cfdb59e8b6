//! The host-local IPAM plugin: addresses from ranges, kept as files.
//!
//! There is a file for each command. `config.rs`, `requested.rs`, `ranges.rs` and `resolv_conf.rs` read the input,
//! `presence.rs` tells whether a container still uses its address, `allocate.rs` chooses addresses, and `store.rs`
//! keeps the leases; nothing else changes files.

use cni_plugin::run::Plugin;

mod add;
mod allocate;
mod check;
mod config;
mod del;
mod gc;
mod holders;
mod presence;
mod ranges;
mod requested;
mod resolv_conf;
mod status;
mod store;

pub use holders::{Holder, full_sets, holders, lease_directory, ranges};
pub use ranges::Range;

/// The plugin.
pub struct HostLocal;

impl Plugin for HostLocal {
    fn kind(&self) -> &'static str {
        "host-local"
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
