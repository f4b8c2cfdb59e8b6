//! The route-override plugin: removes and adds routes of the interface that an earlier plugin has made, and returns
//! the result with the new routes. DEL restores the former routes.

use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

mod add;
mod check;
mod config;
mod del;
mod gc;
mod record;
mod routes;
mod status;

/// The plugin.
pub struct RouteOverride;

impl Plugin for RouteOverride {
    fn kind(&self) -> &'static str {
        "route-override"
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    cni_plugin::commands!(examine, add, del, check, status, gc);
}
