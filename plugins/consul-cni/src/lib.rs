//! The consul-cni plugin: redirects the TCP connections and the DNS questions of a container through the Consul proxy
//! that runs in it. It is the last plugin of a list, and returns the result of the plugins before it.
//!
//! Nomad says in `CNI_ARGS` what is redirected (`argument.rs`); `entry.rs` reads one value of a list, `names.rs` looks
//! up users and services by name, and `rules.rs` has the iptables rules in the container's namespace.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod argument;
mod check;
mod config;
mod del;
mod entry;
mod missing;
mod names;
mod rules;
mod status;

/// The plugin.
pub struct ConsulCni;

impl Plugin for ConsulCni {
    fn kind(&self) -> &'static str {
        "consul-cni"
    }

    /// The release of consul-k8s with the same features, as far as Nomad uses them; Nomad needs at least 1.4.2.
    fn reference_level(&self) -> &'static str {
        "2.0.3"
    }

    fn share(&self) -> Share {
        Share::Rules
    }

    cni_plugin::commands!(add, del, check, status, find_missing);
}
