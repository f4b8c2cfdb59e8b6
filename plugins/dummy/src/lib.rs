//! The dummy plugin: a link inside the container that has addresses, and drops what it is to send. Services
//! of the container itself are reached there.

use cni_plugin::exclusion::Share;
use cni_plugin::run::Plugin;

mod add;
mod check;
mod config;
mod del;
mod gc;
mod status;

/// The plugin.
pub struct Dummy;

impl Plugin for Dummy {
    fn kind(&self) -> &'static str {
        "dummy"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(add, del, check, status, gc);
}

#[cfg(test)]
mod tests;
