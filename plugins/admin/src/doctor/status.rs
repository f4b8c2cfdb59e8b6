//! What a plugin says of itself by STATUS.

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_plugin::run::Plugin;
use serde_json::Value;

use crate::configuration_files::request;
use crate::error_line::error_line;

/// Asks the plugin that a configuration names. `None` when this binary does not contain it.
pub fn of(config: &Value) -> Option<Result<(), String>> {
    let kind = config.get("type")?.as_str()?;
    let plugin = cni_builtin::plugin(kind)?;
    Some(ask(plugin, config).map_err(|error| error_line(&error)))
}

fn ask(plugin: &dyn Plugin, config: &Value) -> Result<(), Error> {
    let request = request(config.clone(), plugin)?;
    plugin.status(&request, &mut LinuxHost::new(&request).with_contained(cni_builtin::call_delegate))
}
