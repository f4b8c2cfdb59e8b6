//! The real `cnitool`, the reference runtime of the CNI project.
//!
//! It is linked with libcni, chooses the container ID itself and keeps its cache below `/var/lib/cni`, which is
//! private to the sandbox.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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
    deadline: Duration,
}

/// One run of the tool that is about to be made, from any thread of the sandbox.
#[derive(Debug, Clone)]
pub struct ToolCall {
    program: PathBuf,
    words: [String; 3],
    environment: Vec<(String, String)>,
    deadline: Duration,
}

impl<'s> CniTool<'s> {
    /// Writes the network configuration list where the tool will look for it. Lists that differ may have one name.
    ///
    /// # Panics
    /// When `cnitool` is not installed.
    pub fn new(sandbox: &'s Sandbox, list: &Value) -> Self {
        let network = list["name"].as_str().expect("a configuration list has a name").to_owned();
        let configurations = Path::new(OWN).join(format!("net.d-{}", hash(list)));
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
            deadline: DEADLINE,
        }
    }

    /// Runs the plugins of another folder.
    #[must_use]
    pub fn binaries(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    /// Fails the test when a run takes longer.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
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

    #[track_caller]
    fn run(&self, verb: &str, netns: &str) -> Outcome {
        self.prepare(verb, netns).run()
    }

    /// Prepares `cnitool VERB`, for tests that run many at once.
    pub fn prepare(&self, verb: &str, netns: &str) -> ToolCall {
        let text = |path: &Path| path.to_str().expect("folders are text").to_owned();
        let mut environment = vec![
            ("PATH".to_owned(), self.sandbox.search_path().to_owned()),
            ("LC_ALL".to_owned(), "C".to_owned()),
            ("CNI_PATH".to_owned(), text(&self.folder)),
            ("NETCONFPATH".to_owned(), text(&self.configurations)),
        ];
        environment.extend(self.variables.iter().cloned());
        if !self.capabilities.is_null() {
            environment.push(("CAP_ARGS".to_owned(), self.capabilities.to_string()));
        }
        let words = [verb, &self.network, netns].map(str::to_owned);
        ToolCall { program: self.program.clone(), words, environment, deadline: self.deadline }
    }
}

impl ToolCall {
    /// Runs the tool on the sandbox's host.
    ///
    /// # Panics
    /// When it cannot be started or misses its deadline.
    #[track_caller]
    pub fn run(&self) -> Outcome {
        let mut command = Command::new(&self.program);
        command.args(&self.words).env_clear().envs(self.environment.iter().map(|(key, value)| (key, value)));
        let finished = child::run(command, b"", Limit::Fail(self.deadline));
        Outcome::new(format!("cnitool {}", self.words[0]), finished, None)
    }
}

fn hash(list: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    list.to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
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
