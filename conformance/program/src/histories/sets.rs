//! A folder of plugins, and what is known about them before they are compared.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use cni_conformance::reference::{self, Level};

/// The origin of a set of plugins, which decides what may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginOrigin {
    /// Those of this repository, or something in front of them.
    Ours,
    /// Anybody else's.
    Others,
}

/// A folder of plugins.
#[derive(Debug, Clone)]
pub struct PluginSet {
    /// The folder.
    pub folder: PathBuf,
    /// The features.
    pub level: Level,
    /// The origin.
    pub maker: PluginOrigin,
}

impl PluginSet {
    /// Asks the plugin `bridge` of a folder.
    ///
    /// # Panics
    /// When it does not answer VERSION.
    pub fn open(folder: PathBuf) -> Result<Self, String> {
        let bridge = folder.join("bridge");
        let mut command = Command::new(&bridge);
        let asked = command.env_clear().stdin(Stdio::null()).output();
        let asked = asked.map_err(|error| format!("start {}: {error}", bridge.display()))?;
        let said = [asked.stdout, asked.stderr].concat();
        let maker =
            if String::from_utf8_lossy(&said).contains("+rs.") { PluginOrigin::Ours } else { PluginOrigin::Others };
        let level = reference::level_of(&folder);
        Ok(Self { folder, level, maker })
    }
}
