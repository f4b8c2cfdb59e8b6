//! A small runtime that calls plugins as libcni does.
//!
//! From a network configuration list it derives each plugin's standard input: the list's name and
//! version, the previous result, and those capabilities that the plugin advertises. ADD, CHECK,
//! GC and STATUS go forward, DEL backward. The first error ends a chain, except for GC. Odd
//! requests (no result, no capabilities, another namespace) are changes to an [`Attachment`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::binaries;
use crate::child::DEADLINE;
use crate::namespace::Namespace;
use crate::plugin::{CniError, Invocation, Outcome, Verb};
use crate::ports::{self, PortMapping, Spelling};
use crate::sandbox::Sandbox;

/// One container's connection to a network, with all that a runtime remembers of it.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// `CNI_CONTAINERID`
    pub container_id: String,
    /// `CNI_NETNS`
    pub netns: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// `CNI_ARGS`
    pub args: String,
    /// Capability values by name.
    pub capabilities: Map<String, Value>,
    /// The final result of ADD.
    pub result: Option<Value>,
}

impl Attachment {
    /// Describes a container that is not attached yet, with interface `eth0`.
    pub fn new(container_id: &str, namespace: &Namespace) -> Self {
        Self {
            container_id: container_id.to_owned(),
            netns: namespace.path().to_owned(),
            ifname: "eth0".to_owned(),
            args: String::new(),
            capabilities: Map::new(),
            result: None,
        }
    }

    /// Sets the `portMappings` capability.
    #[must_use]
    pub fn ports(mut self, mappings: &[PortMapping], spelling: Spelling) -> Self {
        self.capabilities.insert("portMappings".to_owned(), ports::render(mappings, spelling));
        self
    }

    /// Sets `CNI_ARGS`.
    #[must_use]
    pub fn args(mut self, args: &str) -> Self {
        args.clone_into(&mut self.args);
        self
    }

    /// Sets `CNI_IFNAME`.
    #[must_use]
    pub fn ifname(mut self, ifname: &str) -> Self {
        ifname.clone_into(&mut self.ifname);
        self
    }

    /// Sets `CNI_NETNS`, which may be empty, missing or a plain file.
    #[must_use]
    pub fn netns(mut self, path: &str) -> Self {
        path.clone_into(&mut self.netns);
        self
    }

    /// Forgets the result of ADD.
    #[must_use]
    pub fn without_result(mut self) -> Self {
        self.result = None;
        self
    }

    /// Forgets all capability values.
    #[must_use]
    pub fn without_capabilities(mut self) -> Self {
        self.capabilities.clear();
        self
    }
}

/// A runtime with one network.
#[derive(Debug, Clone)]
pub struct Runtime<'s> {
    search_path: &'s str,
    list: Value,
    folder: PathBuf,
    environment: Vec<(String, String)>,
    traced: bool,
    deadline: Duration,
    killed_at: Option<Instant>,
}

impl<'s> Runtime<'s> {
    /// Takes a network configuration list, for the plugins under test.
    pub fn new(sandbox: &'s Sandbox, list: Value) -> Self {
        Self::of_plugins(sandbox, list, &binaries::under_test())
    }

    /// The same for the plugins of any folder, when none are under test.
    pub fn of_plugins(sandbox: &'s Sandbox, list: Value, folder: &Path) -> Self {
        Self {
            search_path: sandbox.search_path(),
            list,
            folder: folder.to_owned(),
            environment: Vec::new(),
            traced: false,
            deadline: DEADLINE,
            killed_at: None,
        }
    }

    /// Runs the plugins of another folder.
    #[must_use]
    pub fn binaries(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    /// Sets a variable for every plugin.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.environment.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Returns the variables that were set.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Fails the test when one plugin takes longer.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = time;
        self
    }

    /// Kills the plugin that runs at this moment, with its children. No other is called then.
    #[must_use]
    pub fn killed_at(mut self, moment: Instant) -> Self {
        self.killed_at = Some(moment);
        self
    }

    /// Records every process that plugins start.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.traced = true;
        self
    }

    /// Takes another network configuration list.
    #[must_use]
    pub fn listing(mut self, list: Value) -> Self {
        self.list = list;
        self
    }

    /// Returns the `PATH` of the plugins.
    pub fn search_path(&self) -> &'s str {
        self.search_path
    }

    /// Returns the network configuration list.
    pub fn list(&self) -> &Value {
        &self.list
    }

    /// Runs ADD and keeps the final result in the attachment when all plugins succeed.
    #[track_caller]
    pub fn add(&self, attachment: &mut Attachment) -> Chain {
        let mut previous = None;
        let chain = Chain::until_failure(Verb::Add, self.plugins().iter(), |plugin| {
            let outcome = self.call(Verb::Add, plugin, attachment, previous.as_ref());
            if outcome.succeeded() {
                previous = Some(outcome.result());
            }
            outcome
        });
        if chain.succeeded() {
            attachment.result = previous;
        }
        chain
    }

    /// Runs CHECK; every plugin gets the final result.
    #[track_caller]
    pub fn check(&self, attachment: &Attachment) -> Chain {
        self.walk(Verb::Check, self.plugins().iter(), attachment)
    }

    /// Runs DEL from the last plugin to the first; every plugin gets the final result.
    #[track_caller]
    pub fn del(&self, attachment: &Attachment) -> Chain {
        self.walk(Verb::Del, self.plugins().iter().rev(), attachment)
    }

    /// Runs STATUS.
    #[track_caller]
    pub fn status(&self) -> Chain {
        let call = |plugin: &Value| self.call_network(Verb::Status, plugin, self.config(plugin));
        Chain::until_failure(Verb::Status, self.plugins().iter(), call)
    }

    /// Runs GC with the attachments that are still wanted.
    #[track_caller]
    pub fn gc(&self, valid: &[&Attachment]) -> Chain {
        let valid: Value = valid
            .iter()
            .map(|attachment| json!({"containerID": attachment.container_id, "ifname": attachment.ifname}))
            .collect();
        let mut chain = Chain { verb: Verb::Gc, steps: Vec::new() };
        for plugin in self.plugins() {
            let mut config = self.config(plugin);
            config.insert("cni.dev/valid-attachments".to_owned(), valid.clone());
            config.insert("cni.dev/attachments".to_owned(), valid.clone());
            chain.push(plugin, self.call_network(Verb::Gc, plugin, config));
        }
        chain
    }

    /// Prepares the call of one plugin of the list, for tests that want to change it.
    ///
    /// # Panics
    /// When the list has no plugin of this type.
    #[track_caller]
    pub fn invocation(
        &self,
        verb: Verb,
        plugin_type: &str,
        attachment: &Attachment,
        previous: Option<&Value>,
    ) -> Invocation {
        let plugin = self.plugins().iter().find(|plugin| type_of(plugin) == plugin_type);
        let plugin = plugin.unwrap_or_else(|| panic!("the list has no plugin {plugin_type}"));
        self.prepare(verb, plugin, attachment, previous)
    }

    /// Returns the configurations of the list's plugins.
    pub fn plugins(&self) -> &[Value] {
        self.list["plugins"].as_array().expect("a configuration list has plugins")
    }

    #[track_caller]
    fn walk<'p>(&self, verb: Verb, plugins: impl Iterator<Item = &'p Value>, attachment: &Attachment) -> Chain {
        let call = |plugin: &Value| self.call(verb, plugin, attachment, attachment.result.as_ref());
        Chain::until_failure(verb, plugins, call)
    }

    #[track_caller]
    fn call(&self, verb: Verb, plugin: &Value, attachment: &Attachment, previous: Option<&Value>) -> Outcome {
        self.prepare(verb, plugin, attachment, previous).traced(self.traced).run()
    }

    fn prepare(&self, verb: Verb, plugin: &Value, attachment: &Attachment, previous: Option<&Value>) -> Invocation {
        let mut config = self.config(plugin);
        let wanted = advertised(plugin, &attachment.capabilities);
        if !wanted.is_empty() {
            config.insert("runtimeConfig".to_owned(), Value::Object(wanted));
        }
        if let Some(previous) = previous {
            config.insert("prevResult".to_owned(), previous.clone());
        }
        self.bare(verb, plugin)
            .container_id(&attachment.container_id)
            .netns(&attachment.netns)
            .ifname(&attachment.ifname)
            .args(&attachment.args)
            .config(&Value::Object(config))
    }

    /// Calls a command that is about no container: the variables are set, but empty.
    #[track_caller]
    fn call_network(&self, verb: Verb, plugin: &Value, config: Map<String, Value>) -> Outcome {
        let config = Value::Object(config);
        let nothing = self.bare(verb, plugin).container_id("").netns("").ifname("").args("");
        nothing.config(&config).traced(self.traced).run()
    }

    fn bare(&self, verb: Verb, plugin: &Value) -> Invocation {
        let call = Invocation::with_path(self.search_path, &self.folder, type_of(plugin), verb);
        let call = match self.killed_at {
            None => call.deadline(self.deadline),
            Some(moment) => call.killed_after(moment.saturating_duration_since(Instant::now())),
        };
        self.environment.iter().fold(call, |call, (key, value)| call.env(key, value))
    }

    fn config(&self, plugin: &Value) -> Map<String, Value> {
        let mut config = plugin.as_object().expect("a plugin's configuration is an object").clone();
        for key in ["name", "cniVersion"] {
            config.insert(key.to_owned(), self.list[key].clone());
        }
        config
    }
}

fn type_of(plugin: &Value) -> &str {
    plugin["type"].as_str().expect("a plugin's configuration has a type")
}

fn advertised(plugin: &Value, offered: &Map<String, Value>) -> Map<String, Value> {
    let wants = |name: &str| plugin["capabilities"][name] == Value::Bool(true);
    let values = offered.iter().filter(|(name, _)| wants(name));
    values.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The answers of the plugins of a list, in the order of the calls.
#[derive(Debug, Clone)]
pub struct Chain {
    verb: Verb,
    steps: Vec<(String, Outcome)>,
}

impl Chain {
    /// Calls plugins in their order, up to the first that fails.
    #[track_caller]
    fn until_failure<'p>(
        verb: Verb,
        plugins: impl Iterator<Item = &'p Value>,
        mut call: impl FnMut(&Value) -> Outcome,
    ) -> Self {
        let mut chain = Self { verb, steps: Vec::new() };
        for plugin in plugins {
            let outcome = call(plugin);
            let failed = !outcome.succeeded();
            chain.push(plugin, outcome);
            if failed {
                break;
            }
        }
        chain
    }

    fn push(&mut self, plugin: &Value, outcome: Outcome) {
        self.steps.push((type_of(plugin).to_owned(), outcome));
    }

    /// Returns all outcomes with the types of their plugins.
    pub fn steps(&self) -> &[(String, Outcome)] {
        &self.steps
    }

    /// Tells whether all plugins that were called succeeded.
    pub fn succeeded(&self) -> bool {
        self.steps.iter().all(|(_, outcome)| outcome.succeeded())
    }

    /// Requires that all plugins succeeded.
    ///
    /// # Panics
    /// Otherwise, with all that the failing plugin said.
    #[track_caller]
    pub fn expect_success(&self) -> &Self {
        assert!(self.succeeded(), "{} must succeed: {self}", self.verb);
        self
    }

    /// Requires that the chain ended with this plugin, this code and this text.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn expect_error(&self, plugin: &str, code: u64, text: &str) -> CniError {
        let (last, outcome) = self.steps.last().expect("a chain has steps");
        assert!(last == plugin, "{plugin} must fail: {self}");
        outcome.expect_error(code, text)
    }

    /// Requires success and returns the result of the last plugin.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn result(&self) -> Value {
        self.expect_success();
        self.steps.last().expect("a chain has steps").1.result()
    }

    /// Returns what one plugin answered.
    ///
    /// # Panics
    /// When it was not called.
    #[track_caller]
    pub fn step(&self, plugin: &str) -> &Outcome {
        let step = self.steps.iter().find(|(name, _)| name == plugin);
        &step.unwrap_or_else(|| panic!("{plugin} was not called: {self}")).1
    }

    /// Returns the names of the processes that traced plugins started.
    #[track_caller]
    pub fn children(&self) -> Vec<String> {
        let processes = self.steps.iter().flat_map(|(plugin, outcome)| {
            outcome.children().iter().map(move |process| format!("{plugin} started {}", process.call))
        });
        processes.collect()
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, outcome) in &self.steps {
            writeln!(f, "{outcome}")?;
        }
        Ok(())
    }
}
