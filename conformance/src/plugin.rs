//! One run of one plugin binary.
//!
//! An [`Invocation`] holds environment and standard input. It starts with what a runtime sends for an ordinary
//! container; a test changes parts of it. [`Outcome`] holds the output, with assertions that print all of it on
//! failure.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::binaries;
use crate::child::{self, DEADLINE, Finished, Limit, Usage};
use crate::processes::{StartedProgram, Trace, Tracer};
use crate::sandbox::Sandbox;
use crate::transcript::{self, Exchange};

/// A command of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `ADD`
    Add,
    /// `CHECK`
    Check,
    /// `DEL`
    Del,
    /// `GC`
    Gc,
    /// `STATUS`
    Status,
    /// `VERSION`
    Version,
}

impl Verb {
    /// All commands of version 1.1.0.
    pub const ALL: [Self; 6] = [Self::Add, Self::Check, Self::Del, Self::Gc, Self::Status, Self::Version];

    /// Returns the value of `CNI_COMMAND`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Check => "CHECK",
            Self::Del => "DEL",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A plugin about to be run.
#[derive(Debug, Clone)]
pub struct Invocation {
    plugin: String,
    folder: PathBuf,
    environment: BTreeMap<String, String>,
    launcher: Vec<String>,
    arguments: Vec<String>,
    input: Vec<u8>,
    limit: Limit,
    traced: bool,
}

impl Invocation {
    /// Prepares a run with container ID `conformance`, interface `eth0` and no namespace.
    pub fn new(sandbox: &Sandbox, plugin: &str, verb: Verb) -> Self {
        Self::with_path(sandbox.search_path(), &binaries::under_test(), plugin, verb)
    }

    /// Makes an invocation for a sandbox, given only its `PATH`, as in another thread.
    pub(crate) fn with_path(search_path: &str, folder: &Path, plugin: &str, verb: Verb) -> Self {
        let environment = [
            ("PATH", search_path),
            ("LC_ALL", "C"),
            ("CNI_COMMAND", verb.as_str()),
            ("CNI_CONTAINERID", "conformance"),
            ("CNI_IFNAME", "eth0"),
        ];
        let environment = environment.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let invocation = Self {
            plugin: plugin.to_owned(),
            folder: PathBuf::new(),
            environment: environment.into(),
            launcher: Vec::new(),
            arguments: Vec::new(),
            input: Vec::new(),
            limit: Limit::Fail(DEADLINE),
            traced: false,
        };
        invocation.binaries(folder)
    }

    /// Runs the plugins of this folder, and sends it as `CNI_PATH`.
    #[must_use]
    pub fn binaries(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        let path = folder.to_str().expect("folders of plugins are text").to_owned();
        self.env("CNI_PATH", &path)
    }

    /// Sets `CNI_CONTAINERID`.
    #[must_use]
    pub fn container_id(self, id: &str) -> Self {
        self.env("CNI_CONTAINERID", id)
    }

    /// Sets `CNI_NETNS`.
    #[must_use]
    pub fn netns(self, path: &str) -> Self {
        self.env("CNI_NETNS", path)
    }

    /// Sets `CNI_IFNAME`.
    #[must_use]
    pub fn ifname(self, name: &str) -> Self {
        self.env("CNI_IFNAME", name)
    }

    /// Sets `CNI_ARGS`.
    #[must_use]
    pub fn args(self, args: &str) -> Self {
        self.env("CNI_ARGS", args)
    }

    /// Sets `CNI_PATH`.
    #[must_use]
    pub fn path(self, path: &str) -> Self {
        self.env("CNI_PATH", path)
    }

    /// Sets any variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.environment.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Takes a variable away.
    #[must_use]
    pub fn without_env(mut self, key: &str) -> Self {
        self.environment.remove(key);
        self
    }

    /// Starts the plugin through another program, with these words before the plugin's path. A traced run has its own
    /// program.
    #[must_use]
    pub fn launched_by(mut self, words: &[&str]) -> Self {
        self.launcher = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Adds command-line arguments, which the protocol does not know.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Sets standard input to a network configuration.
    #[must_use]
    pub fn config(self, config: &Value) -> Self {
        self.stdin(config.to_string().as_bytes())
    }

    /// Sets standard input to any bytes.
    #[must_use]
    pub fn stdin(mut self, input: &[u8]) -> Self {
        self.input = input.to_vec();
        self
    }

    /// Fails the test when the run takes longer.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.limit = Limit::Fail(time);
        self
    }

    /// Kills the plugin and its children after this time, if they still run.
    #[must_use]
    pub fn killed_after(mut self, time: Duration) -> Self {
        self.limit = Limit::Kill(time);
        self
    }

    /// Records every process that the plugin starts.
    #[must_use]
    pub fn traced(mut self, traced: bool) -> Self {
        self.traced = traced;
        self
    }

    /// Runs the plugin on the sandbox's host, and up to twice again while it says that a program of iptables has not ended, or that D-Bus has
    /// not answered: on a busy machine where many network namespaces end at once, the kernel keeps changes of rules, also those that firewalld
    /// makes, waiting for longer than plugins do.
    ///
    /// # Panics
    /// When it cannot be started or misses its deadline.
    #[track_caller]
    pub fn run(&self) -> Outcome {
        let mut outcome = self.run_once();
        for _ in 0..2 {
            let says = |text: &str| outcome.stdout().contains(text);
            if outcome.succeeded() || !(says("did not end within") || says("D-Bus at") && says("did not answer within"))
            {
                break;
            }
            outcome = self.run_once();
        }
        outcome
    }

    #[track_caller]
    fn run_once(&self) -> Outcome {
        let binary = self.folder.join(&self.plugin);
        let tracer = self.traced.then(Tracer::new);
        let mut command = match (&tracer, &self.launcher[..]) {
            (Some(tracer), _) => tracer.command(&binary),
            (None, []) => Command::new(&binary),
            (None, [program, words @ ..]) => {
                let mut command = Command::new(program);
                command.args(words).arg(&binary);
                command
            }
        };
        command.args(&self.arguments).env_clear().envs(&self.environment);
        let noted = transcript::begin(|| self.exchange(&binary));
        let finished = child::run(command, &self.input, self.limit);
        transcript::end(noted, &finished);
        let verb = self.environment.get("CNI_COMMAND").map_or("", String::as_str);
        let label = format!("{} {verb}", self.plugin);
        Outcome::new(label, finished, tracer.map(Tracer::finish))
    }
}

impl Invocation {
    fn exchange(&self, binary: &Path) -> Exchange {
        let words = [binary.display().to_string()].into_iter().chain(self.arguments.iter().cloned());
        Exchange {
            command: words.collect(),
            environment: self.environment.clone(),
            stdin: String::from_utf8_lossy(&self.input).into_owned(),
            answer: None,
        }
    }
}

/// Starts all calls at the same time and waits for all of them.
///
/// # Panics
/// As [`Invocation::run`].
#[track_caller]
pub fn at_once(calls: &[Invocation]) -> Vec<Outcome> {
    thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|call| scope.spawn(|| call.run())).collect();
        running.into_iter().map(|call| call.join().expect("a call in its own thread")).collect()
    })
}

/// An error object of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CniError {
    /// The SPEC's or the plugin's number.
    pub code: u64,
    /// The short text.
    pub msg: String,
    /// The long text, or nothing.
    pub details: String,
}

impl CniError {
    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let details = value.get("details").map_or(Some(""), Value::as_str)?;
        Some(Self {
            code: value.get("code")?.as_u64()?,
            msg: value.get("msg")?.as_str()?.to_owned(),
            details: details.to_owned(),
        })
    }
}

/// The outcome of a plugin's run.
#[derive(Debug, Clone)]
pub struct Outcome {
    label: String,
    finished: Finished,
    trace: Option<Trace>,
}

impl Outcome {
    pub(crate) fn new(label: String, finished: Finished, trace: Option<Trace>) -> Self {
        Self { label, finished, trace }
    }

    /// Tells whether the exit status is 0.
    pub fn succeeded(&self) -> bool {
        self.finished.code == Some(0)
    }

    /// Returns the exit code, or `None` after a signal.
    pub fn code(&self) -> Option<i32> {
        self.finished.code
    }

    /// Returns standard output as it came.
    pub fn stdout(&self) -> &str {
        &self.finished.stdout
    }

    /// Returns standard error as it came.
    pub fn stderr(&self) -> &str {
        &self.finished.stderr
    }

    /// Returns the time that the run took.
    pub fn elapsed(&self) -> Duration {
        self.finished.elapsed
    }

    /// Returns the processes that a traced run started, without the plugin itself.
    ///
    /// # Panics
    /// When the run was not traced.
    #[track_caller]
    pub fn children(&self) -> &[StartedProgram] {
        self.trace().processes.get(1..).unwrap_or_default()
    }

    /// Returns how often a traced run sent something to a netlink socket, the processes that it started included.
    ///
    /// # Panics
    /// When the run was not traced.
    #[track_caller]
    pub fn netlink_messages(&self) -> usize {
        self.trace().messages
    }

    #[track_caller]
    fn trace(&self) -> &Trace {
        self.trace.as_ref().unwrap_or_else(|| panic!("{} was not traced", self.label))
    }

    /// Returns what the run used, with the processes that it started.
    pub fn usage(&self) -> Usage {
        self.finished.usage
    }

    /// Requires exit status 0.
    ///
    /// # Panics
    /// Otherwise, with all that the plugin said.
    #[track_caller]
    pub fn expect_success(&self) -> &Self {
        assert!(self.succeeded(), "must succeed: {self}");
        self
    }

    /// Requires exit status 0 and one JSON object on standard output, and returns it.
    ///
    /// # Panics
    /// Otherwise, with all that the plugin said.
    #[track_caller]
    pub fn result(&self) -> Value {
        self.expect_success();
        match serde_json::from_str::<Value>(self.stdout()) {
            Ok(value) if value.is_object() => value,
            Ok(_) => panic!("must print an object: {self}"),
            Err(error) => panic!("must print a result ({error}): {self}"),
        }
    }

    /// Requires exit status 1 and an error object on standard output, and returns it.
    ///
    /// # Panics
    /// Otherwise, with all that the plugin said.
    #[track_caller]
    pub fn error(&self) -> CniError {
        assert!(self.code() == Some(1), "must fail with status 1: {self}");
        CniError::parse(self.stdout()).unwrap_or_else(|| panic!("must print an error object: {self}"))
    }

    /// Returns the error object on standard output, if there is one.
    pub fn reported(&self) -> Option<CniError> {
        CniError::parse(self.stdout())
    }

    /// Requires an error with this code whose `msg` or `details` contains `text`.
    ///
    /// # Panics Otherwise, with all output of the plugin.
    #[track_caller]
    pub fn expect_error(&self, code: u64, text: &str) -> CniError {
        let error = self.error();
        assert!(error.code == code, "must fail with code {code}: {self}");
        assert!(error.msg.contains(text) || error.details.contains(text), "must say {text:?}: {self}");
        error
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finished { code, stdout, stderr, elapsed, label: _, usage: _ } = &self.finished;
        let status = code.map_or_else(|| "a signal".to_owned(), |code| format!("status {code}"));
        write!(f, "{} ended with {status} after {elapsed:?}\nstdout: {stdout}\nstderr: {stderr}", self.label)
    }
}
