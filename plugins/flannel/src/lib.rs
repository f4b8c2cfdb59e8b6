//! The flannel plugin: it makes no interface itself. It reads the lease that `flanneld` has written for this host, composes the
//! configuration of another plugin from it, by default bridge, and calls that plugin. A state file keeps the composed
//! configuration for DEL.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use config::KIND;

mod add;
mod check;
mod config;
mod del;
mod delegate;
mod delegate_config;
mod gc;
mod lease;
mod lease_file;
mod state;
mod status;

pub use config::{Config, SUBNET_FILE};
pub use delegate::delegate_of;
pub use delegate_config::DelegateConfig;
pub use lease::{LeaseCause, LeaseError, SubnetLease};

/// The plugin.
pub struct Flannel;

impl Plugin for Flannel {
    fn kind(&self) -> &'static str {
        KIND
    }

    /// Its delegate makes the interface, and this plugin holds the locks.
    fn share(&self) -> Share {
        Share::Interface
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
