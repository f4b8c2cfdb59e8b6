//! The host-device plugin: moves an interface of the host into the container, and back.
//!
//! `config.rs` says which device, `devices.rs` and `find.rs` find its link, `loan.rs` records what the link was on the host,
//! and `give_back.rs` makes it that again, wherever it is by then, if `proof.rs` finds that it is that link.

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
mod loan;
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

#[cfg(test)]
mod tests;
