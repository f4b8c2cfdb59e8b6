//! The vrf plugin: puts the interface that an earlier plugin has made into a VRF, a link with its own routing table,
//! so that the networks of two interfaces may overlap.

use cni_core::version::Version;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod facts;
mod status;

/// The plugin.
pub struct Vrf;

impl Plugin for Vrf {
    fn kind(&self) -> &'static str {
        "vrf"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_3_1
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    cni_plugin::commands!(examine, add, del, check, status);
}
