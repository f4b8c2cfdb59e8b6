//! The host-device plugin: moves an interface of the host into the container, and back.
//!
//! `config.rs` says which device, `devices.rs` and `find.rs` find its link, `moved_link.rs` records the properties
//! that it had on the host, and `give_back.rs` restores them, if `proof.rs` finds that it is the same link. `moved_on.rs`
//! finds a link that the container has moved to another namespace.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod devices;
mod find;
mod gc;
mod give_back;
mod link_to_return;
mod moved_link;
mod moved_on;
mod proof;
mod status;

/// The plugin.
pub struct HostDevice;

impl Plugin for HostDevice {
    fn kind(&self) -> &'static str {
        "host-device"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(add, del, check, status, gc);
}
