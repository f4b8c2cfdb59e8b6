//! The flannel plugin: makes no interface itself. It reads the lease that `flanneld` has written for this host, composes the
//! configuration of another plugin from it, bridge unless told otherwise, and calls that plugin. A state file keeps the
//! composed configuration for DEL.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use config::KIND;

mod add;
mod check;
mod compose;
mod config;
mod del;
mod delegate;
mod gc;
mod lease;
mod lines;
mod state;
mod status;

pub use compose::Composed;
pub use config::{Config, SUBNET_FILE};
pub use delegate::delegate_of;
pub use lease::{Lease, LeaseCause, LeaseError};

/// The plugin.
pub struct Flannel;

impl Plugin for Flannel {
    fn kind(&self) -> &'static str {
        KIND
    }

    /// Its delegate makes the interface, under the locks of this plugin.
    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(add, del, check, status, gc);
}

#[cfg(test)]
mod tests;
