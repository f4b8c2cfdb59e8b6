//! The sbr plugin (source based routing): packets with a source address of the interface leave through the interface.
//! Each address gets its own routing table, and a rule that selects it.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod addresses;
mod check;
mod config;
mod del;
mod facts;
mod gc;
mod interface_routing;
mod record;
mod status;

/// The plugin.
pub struct Sbr;

impl Plugin for Sbr {
    fn kind(&self) -> &'static str {
        "sbr"
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
