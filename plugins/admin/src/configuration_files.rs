//! Files with network configurations, and the plugins that they name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_core::request::{Call, Environment, Request};
use cni_plugin::run::Plugin;
use serde_json::{Value, json};

/// The folder in which Nomad looks for them.
pub const NOMAD: &str = "/opt/cni/config";

/// Where most runtimes, and Nomad, look for them.
pub const FOLDERS: [&str; 2] = ["/etc/cni/net.d", NOMAD];

/// The files of a folder that libcni reads, in its order.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|end| ["conf", "conflist", "json"].iter().any(|one| end == *one)));
    files.sort();
    Ok(files)
}

/// Reads a file. A pipe would be waited for, and a device may never end.
pub fn read(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.is_file() { fs::read_to_string(file) } else { Err(io::Error::other("not a regular file")) }
}

/// The plugins of a list, or the single one.
pub fn plugins(list: &Value) -> Vec<Value> {
    list.get("plugins").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![list.clone()])
}

/// A plugin's configuration with the name of its network.
pub fn named(list: &Value, plugin: &Value) -> Value {
    let mut config = plugin.clone();
    if let (Some(keys), Some(name)) = (config.as_object_mut(), list.get("name")) {
        keys.insert("name".to_owned(), name.clone());
    }
    config
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
    let environment = Environment::new([("CNI_PATH", folder.as_deref().unwrap_or_default())]);
    Call::parse("STATUS", environment)?.with_config(config.to_string().into_bytes(), plugin.versions())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_not_read() {
        let said = |path: &str| read(Path::new(path)).expect_err("refused").to_string();
        assert_eq!(["/dev/zero", "/"].map(said), ["not a regular file"; 2]);
    }
}
