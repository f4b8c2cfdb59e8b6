//! Which plugin a configuration is for.

#[path = "../../../plugins/cni-plugins/src/plugins.rs"]
mod all;

use cni_core::json::Json;
use cni_plugin::run::Plugin;

/// The plugin of a configuration. host-local keeps its files on the real disk, so it has a target of its own.
pub fn plugin_of(config: &Json) -> Option<&'static dyn Plugin> {
    let Some(Json::String(kind)) = config.get("type") else { return None };
    all::PLUGINS.into_iter().find(|plugin| plugin.kind() == kind && kind != "host-local")
}

/// What they say of themselves.
pub use all::OUR_VERSION;

/// All of them.
pub fn every() -> impl Iterator<Item = &'static dyn Plugin> {
    all::PLUGINS.into_iter()
}
