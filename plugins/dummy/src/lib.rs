//! The dummy plugin: a link inside the container that has addresses and drops everything it sends. It is for services
//! that the container offers to itself.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod gc;
mod status;

/// The kernel's word for the link.
const KIND: &str = "dummy";

/// The plugin.
pub struct Dummy;

impl Plugin for Dummy {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
