//! The sbr plugin (source based routing): packets that have an address of the interface leave by the interface. Each
//! address gets a routing table of its own, and a rule that leads there.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod addresses;
mod check;
mod config;
mod del;
mod error;
mod facts;
mod gc;
mod lanes;
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

    cni_plugin::commands!(add, del, check, status, gc);
}

#[cfg(test)]
mod tests;
