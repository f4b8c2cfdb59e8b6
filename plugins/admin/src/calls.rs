//! Calls of plugins by the administrator's tool: DEL for a container that is gone, as its runtime ought to have done, and STATUS.
//!
//! A plugin of this binary runs inside the process, on the host of the caller, which holds the attachment's lock; one of
//! others is started from a folder of plugins, and told that its caller holds the lock.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_core::error::Error;
use cni_core::request::{Call, Environment, Request};
use cni_core::version::Version;
use cni_linux::delegate::DELEGATIONS;
use cni_linux::host::LinuxHost;
use cni_linux::process;
use cni_model::plan::Step;
use cni_plugin::run::{Plugin, delete};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cache::{Cached, PluginConfig};
use crate::dry_run::DryRun;
use crate::output::error_line;

/// How long a plugin of others may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Where plugins are: the folder of this program, and one for plugins that this binary does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFolders(OsString);

impl PluginFolders {
    /// The folder of this program, and the one that was named, if any.
    ///
    /// # Errors
    /// When the kernel does not say where this program is, or a folder's name has a colon.
    pub fn new(named: Option<&Path>) -> io::Result<Self> {
        let own = env::current_exe()?.parent().unwrap_or(Path::new("/")).to_owned();
        let folders = [Some(own), named.map(Path::to_owned)].into_iter().flatten();
        env::join_paths(folders).map(Self).map_err(io::Error::other)
    }

    /// The folders in the form of `CNI_PATH`, if a plugin is in one of them.
    pub fn with(&self, kind: &str) -> Option<&str> {
        self.find(kind).ok().and_then(|_| self.0.to_str())
    }

    /// The file of a plugin.
    fn find(&self, kind: &str) -> Result<PathBuf, String> {
        if !is_name(kind) {
            return Err(format!("{kind:?} is not the name of a plugin, and is not run"));
        }
        let found = cni_files::find_files(OsStr::new(kind), &self.0).next();
        found.ok_or_else(|| format!("there is no such plugin in {}", self.0.to_string_lossy()))
    }
}

/// Whether a plugin can have this name: not one that leads to another folder.
fn is_name(kind: &str) -> bool {
    !kind.is_empty() && ![".", ".."].contains(&kind) && !kind.contains(['/', '\0'])
}

/// What calls plugins, one attachment after the other.
pub struct Caller {
    folders: PluginFolders,
    /// Closing a host waits for the kernel where rules have been deleted, so one serves for all attachments.
    host: Option<LinuxHost>,
}

impl Caller {
    /// # Errors
    /// As [`neutral_request`].
    pub fn new(folders: PluginFolders) -> Result<Self, Error> {
        Ok(Self { folders, host: Some(host()?) })
    }

    /// The host, which holds locks from one call to the next.
    ///
    /// # Errors
    /// As [`neutral_request`].
    pub fn host(&mut self) -> Result<&mut LinuxHost, Error> {
        let host = match self.host.take() {
            Some(host) => host,
            None => host()?,
        };
        Ok(self.host.insert(host))
    }

    /// Gives back the locks.
    pub fn release(&mut self) {
        self.host.iter_mut().for_each(LinuxHost::end_request);
    }

    /// Has a plugin of an attachment's list delete what it has of the attachment, whose namespace is gone.
    ///
    /// # Errors
    /// What has failed.
    pub fn delete(&mut self, cached: &Cached, config: &PluginConfig) -> Result<(), String> {
        match cni_builtin::plugin(&config.kind) {
            Some(plugin) => {
                let request = self.request(cached, config, plugin).map_err(|error| error_line(&error))?;
                self.delete_in_place(plugin, &request).map_err(|error| error_line(&error))
            }
            None => {
                let (environment, stdin) = cached.deletion(config, &self.folders.0);
                self.start(&config.kind, &environment, &stdin)
            }
        }
    }

    /// The steps that a DEL would carry out. There are none for a plugin of others, and if the DEL needs a lock that is not free.
    ///
    /// # Errors
    /// What has failed. Steps before it are lost.
    pub fn rehearse(&mut self, cached: &Cached, config: &PluginConfig) -> Result<Vec<Step>, Error> {
        let Some(plugin) = cni_builtin::plugin(&config.kind) else { return Ok(Vec::new()) };
        let request = self.request(cached, config, plugin)?;
        let host = self.host()?;
        host.next_request(&request);
        host.set_waiting(false);
        let mut dry = DryRun::new(host);
        let done = plugin.del(&request, &mut dry);
        let steps = dry.into_steps();
        host.set_waiting(true);
        done.map(|()| steps)
    }

    fn request(&self, cached: &Cached, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        let (environment, stdin) = cached.deletion(config, &self.folders.0);
        let own = env::vars_os().chain(environment.into_iter().map(|(name, value)| (name.into(), value)));
        Call::parse("DEL", Environment::new(own))?.with_config(stdin, plugin.versions())
    }

    /// A host on which something has failed is not used again; its locks are.
    fn delete_in_place(&mut self, plugin: &dyn Plugin, request: &Request) -> Result<(), Error> {
        let host = self.host()?;
        host.next_request(request);
        delete(plugin, request, host).inspect_err(|_| {
            self.host = self.host.take().map(|host| host.reopened(request));
        })
    }

    fn start(&self, kind: &str, environment: &[(&'static str, OsString)], stdin: &[u8]) -> Result<(), String> {
        let program = self.folders.find(kind)?;
        let changes = environment.iter().map(|(name, value)| (*name, value.as_os_str()));
        let changes: Vec<_> = changes.chain([(DELEGATIONS, OsStr::new("1"))]).collect();
        let output = process::run(&program, &[], stdin, &changes, DEADLINE).map_err(|error| in_full(&error))?;
        if output.status.success() { Ok(()) } else { Err(reported(&output.stdout)) }
    }
}

fn host() -> Result<LinuxHost, Error> {
    Ok(LinuxHost::new(&neutral_request()?)
        .with_contained(cni_builtin::call_delegate)
        .with_watched_veths()
        .with_kept_tables())
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

/// Asks the plugin that a configuration names what it says of itself by STATUS. `None` when this binary does not contain it.
pub fn status(config: &Value) -> Option<Result<(), String>> {
    let plugin = cni_builtin::plugin(config.get("type")?.as_str()?)?;
    let said = status_request(config.clone(), plugin).and_then(|request| {
        plugin.status(&request, &mut LinuxHost::new(&request).with_contained(cni_builtin::call_delegate))
    });
    Some(said.map_err(|error| error_line(&error)))
}

/// A request for the host itself, with a configuration in the newest version of the protocol.
///
/// # Errors
/// When the plugin does not take the configuration.
pub fn status_request(mut config: Value, plugin: &dyn Plugin) -> Result<Request, Error> {
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

/// A request for a host that is asked questions only: delegation alone uses it.
///
/// # Errors
/// As [`Call::with_config`].
pub fn neutral_request() -> Result<Request, Error> {
    let environment = Environment::new([("CNI_PATH", "/")]);
    Call::parse("STATUS", environment)?.with_config(br#"{"cniVersion":"1.1.0","name":"tool"}"#.to_vec(), Version::ALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_found_by_a_name_and_not_by_a_path() {
        let folders = PluginFolders::new(Some(Path::new("/bin"))).expect("folders");
        assert_eq!(folders.find("sh"), Ok(PathBuf::from("/bin/sh")));
        for kind in ["/bin/sh", "../bin/sh", "..", ".", "", "a\0"] {
            assert_eq!(folders.find(kind), Err(format!("{kind:?} is not the name of a plugin, and is not run")));
        }
        let missing = folders.find("no-such-plugin").expect_err("there is none");
        assert!(missing.starts_with("there is no such plugin in ") && missing.ends_with(":/bin"), "{missing}");
    }
}
