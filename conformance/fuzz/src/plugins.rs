//! Finds the plugin of a configuration.

use cni_core::json::Json;
use cni_plugin::run::Plugin;

/// The plugin of a configuration. host-local keeps its files on the real disk, so it has a target of its own.
pub fn plugin_of(config: &Json) -> Option<&'static dyn Plugin> {
    let Some(Json::String(kind)) = config.get("type") else { return None };
    cni_builtin::plugin(kind).filter(|_| kind != "host-local")
}

/// What they say of themselves.
pub use cni_builtin::OUR_VERSION;

/// All of them.
pub fn every() -> impl Iterator<Item = &'static dyn Plugin> {
    cni_builtin::PLUGINS.into_iter()
}
