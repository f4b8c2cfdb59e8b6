//! The real `cnitool`, the reference runtime of the CNI project.
//!
//! It is linked with libcni, chooses the container ID itself and keeps its cache below
//! `/var/lib/cni`, which a sandbox has for itself.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::binaries;
use crate::child::{self, DEADLINE, Limit};
use crate::namespace::Namespace;
use crate::plugin::Outcome;
use crate::sandbox::{OWN, Sandbox};

/// A `cnitool` with one network.
#[derive(Debug)]
pub struct CniTool<'s> {
    sandbox: &'s Sandbox,
    program: PathBuf,
    folder: PathBuf,
    configurations: PathBuf,
    network: String,
    capabilities: Value,
    variables: Vec<(String, String)>,
}

impl<'s> CniTool<'s> {
    /// Writes the network configuration list where the tool will look for it.
    ///
    /// # Panics
    /// When `cnitool` is not installed.
    pub fn new(sandbox: &'s Sandbox, list: &Value) -> Self {
        let network = list["name"].as_str().expect("a configuration list has a name").to_owned();
        let configurations = Path::new(OWN).join("net.d");
        fs::create_dir_all(&configurations).expect("create the folder of configurations");
        let file = configurations.join(format!("{network}.conflist"));
        fs::write(&file, list.to_string()).unwrap_or_else(|error| panic!("write {}: {error}", file.display()));
        Self {
            sandbox,
            program: find(),
            folder: binaries::under_test(),
            configurations,
            network,
            capabilities: Value::Null,
            variables: Vec::new(),
        }
    }

    /// Sets the capability values, such as `{"portMappings": […]}`.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Sets a variable of the environment, which the plugins get as well.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.variables.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Runs `cnitool add`.
    #[track_caller]
    pub fn add(&self, namespace: &Namespace) -> Outcome {
        self.run("add", namespace.path())
    }

    /// Runs `cnitool check`.
    #[track_caller]
    pub fn check(&self, namespace: &Namespace) -> Outcome {
        self.run("check", namespace.path())
    }

    /// Runs `cnitool del`.
    #[track_caller]
    pub fn del(&self, namespace: &Namespace) -> Outcome {
        self.run("del", namespace.path())
    }

    /// Runs `cnitool status`.
    #[track_caller]
    pub fn status(&self) -> Outcome {
        self.run("status", "/")
    }

    /// Runs `cnitool gc`, which knows of no valid attachment.
    #[track_caller]
    pub fn gc(&self) -> Outcome {
        self.run("gc", "/")
    }

    #[track_caller]
    fn run(&self, verb: &str, netns: &str) -> Outcome {
        let mut command = Command::new(&self.program);
        command.args([verb, &self.network, netns]).env_clear();
        command.env("PATH", self.sandbox.search_path()).env("LC_ALL", "C");
        command.env("CNI_PATH", &self.folder).env("NETCONFPATH", &self.configurations);
        command.envs(self.variables.iter().map(|(key, value)| (key, value)));
        if !self.capabilities.is_null() {
            command.env("CAP_ARGS", self.capabilities.to_string());
        }
        let finished = child::run(command, b"", Limit::Fail(DEADLINE));
        Outcome::new(format!("cnitool {verb}"), finished, None)
    }
}

fn find() -> PathBuf {
    let search = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&search).collect();
    if let Some(folder) = go_folder() {
        folders.push(folder.join("bin"));
    }
    let found = folders.iter().map(|folder| folder.join("cnitool")).find(|program| program.is_file());
    found.unwrap_or_else(|| {
        panic!("cnitool is neither in PATH nor in Go's bin folder: go install github.com/containernetworking/cni/cnitool@v1.3.0")
    })
}

/// Returns Go's own folder, from `GOPATH` or its default place.
fn go_folder() -> Option<PathBuf> {
    let set = env::var_os("GOPATH").map(PathBuf::from);
    set.or_else(|| env::home_dir().map(|home| home.join("go")))
}
