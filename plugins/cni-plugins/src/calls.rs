//! Calls of plugins by the administrator's tool: DEL for a container that is gone, as its runtime ought to have done.
//!
//! A plugin of this binary runs inside the process; one of others is started from the folder of plugins.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_core::error::Error;
use cni_core::request::{Environment, Request};
use cni_linux::host::LinuxHost;
use cni_linux::process;
use cni_plugin::host::Host;
use cni_plugin::run::{Process, run};
use serde::Deserialize;

use crate::cache::{Cached, PluginConfig};
use crate::delegates;
use crate::plugins::{OUR_VERSION, PLUGINS};

/// How long a plugin of others may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Where plugins are that this binary does not contain.
#[derive(Clone, Debug)]
pub struct PluginFolder(PathBuf);

impl PluginFolder {
    /// The folder that was named, or that of this program.
    ///
    /// # Errors
    /// When the kernel does not say where this program is.
    pub fn new(named: Option<&str>) -> io::Result<Self> {
        let own = || Ok(std::env::current_exe()?.parent().unwrap_or(Path::new("/")).to_owned());
        named.map_or_else(own, |named| Ok(PathBuf::from(named))).map(Self)
    }

    /// Deletes an attachment whose namespace is gone: every plugin of its list, the last one first. A plugin that fails does
    /// not keep the others; what has failed is returned.
    pub fn delete(&self, cached: &Cached) -> Vec<String> {
        let failed = |config: &PluginConfig| {
            self.delete_one(cached, config).err().map(|problem| format!("{}: {problem}", config.kind))
        };
        cached.plugins.iter().rev().filter_map(failed).collect()
    }

    fn delete_one(&self, cached: &Cached, config: &PluginConfig) -> Result<(), String> {
        let (environment, stdin) = cached.deletion(config, &self.0.to_string_lossy());
        match PLUGINS.into_iter().find(|plugin| plugin.kind() == config.kind) {
            Some(plugin) => {
                let own = std::env::vars_os().chain(environment.map(|(name, value)| (name.into(), value.into())));
                let mut call = InPlace { stdin: &stdin, stdout: Vec::new() };
                let status = run(plugin, OUR_VERSION, Environment::new(own), &mut call);
                if status == 0 { Ok(()) } else { Err(reported(&call.stdout)) }
            }
            None => {
                let changes: Vec<_> = environment.iter().map(|(name, value)| (*name, OsStr::new(value))).collect();
                let program = self.0.join(&config.kind);
                let output =
                    process::run(&program, &[], &stdin, &changes, DEADLINE).map_err(|error| in_full(&error))?;
                if output.status.success() { Ok(()) } else { Err(reported(&output.stdout)) }
            }
        }
    }
}

fn in_full(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// The words of an error object.
fn reported(stdout: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Reported {
        msg: String,
        #[serde(default)]
        details: String,
    }
    match serde_json::from_slice(stdout) {
        Ok(Reported { msg, details }) if details.is_empty() => msg,
        Ok(Reported { msg, details }) => format!("{msg}: {details}"),
        Err(_) => "it failed without saying why".to_owned(),
    }
}

/// What stands for the process of a plugin.
struct InPlace<'a> {
    stdin: &'a [u8],
    stdout: Vec<u8>,
}

impl Process for InPlace<'_> {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.to_vec())
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        self.stdout.extend(text.as_bytes());
        Ok(())
    }

    fn write_stderr(&mut self, text: &str) {
        crate::output::complain(text);
    }

    fn host(&mut self, request: &Request) -> Result<Box<dyn Host>, Error> {
        Ok(Box::new(LinuxHost::new(request)?.with_contained(delegates::call)))
    }
}
