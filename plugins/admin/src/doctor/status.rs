//! What a plugin says of itself by STATUS.

use cni_core::error::Error;
use cni_core::request::{Call, Environment, Request};
use cni_linux::host::LinuxHost;
use cni_plugin::run::Plugin;
use serde_json::{Value, json};

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

/// A request for the host itself, with a configuration in the newest version of the protocol.
///
/// # Errors
/// When the plugin does not take the configuration.
pub fn request(mut config: Value, plugin: &dyn Plugin) -> Result<Request, Error> {
    if let Some(keys) = config.as_object_mut() {
        keys.insert("cniVersion".to_owned(), json!("1.1.0"));
        keys.entry("name").or_insert_with(|| json!("doctor"));
    }
    let folder = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.display().to_string()));
    let environment =
        [("CNI_COMMAND".to_owned(), "STATUS".to_owned()), ("CNI_PATH".to_owned(), folder.unwrap_or_default())];
    Call::parse("STATUS", Environment::new(environment))?
        .with_config(config.to_string().into_bytes(), plugin.versions())
}
