//! Runs a history with one set of plugins, on a private host.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::history::{History, HistoryStep, NetworkMember};
use super::records::without_moment;
use cni_conformance::compare::normal::{printed_by, snapshot};
use cni_conformance::container::Container;
use cni_conformance::namespace::Namespace;
use cni_conformance::network::Network;
use cni_conformance::plugin::{Outcome, Verb};
use cni_conformance::reference::Level;
use cni_conformance::runtime::{Attachment, Chain, Runtime};
use cni_conformance::sandbox::Sandbox;

/// What was observed of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// The output of the plugins, in their order.
    pub printed: Vec<String>,
    /// Links, addresses, routes, rules, settings and files afterwards, sorted; nothing when no runtime could go on.
    pub state: Option<Vec<String>>,
}

impl Observation {
    /// Whether a plugin has failed, if errors are compared without their words.
    pub fn fails(&self) -> bool {
        self.printed.last().is_some_and(|line| line.ends_with(FAILS))
    }
}

/// The text of an error without its words.
pub(super) const FAILS: &str = " fails";

/// Whether the words of errors are compared, or only which plugin fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorWords {
    /// They are compared.
    Compared,
    /// Each maker has words and codes of its own.
    Own,
}

/// The form in which results are compared.
#[derive(Debug, Clone, Copy)]
pub struct ResultForm {
    /// The features that both sets have.
    pub level: Level,
    /// Whether the words of errors are compared.
    pub words: ErrorWords,
}

/// Lives through a history, and returns what was seen after each step. A plugin that does what no plugin may do (prints no
/// JSON, does not end) ends it with a moment that says so.
pub fn live(history: &History, folder: &Path, telling: ResultForm) -> Vec<Observation> {
    let mut moments = Vec::new();
    let ended = thread::scope(|scope| {
        let life =
            scope.spawn(|| panic::catch_unwind(AssertUnwindSafe(|| walk(history, folder, telling, &mut moments))));
        life.join().unwrap_or_else(Err)
    });
    if let Err(cause) = ended {
        let said = cause.downcast_ref::<String>().cloned();
        let said = said.or_else(|| cause.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default();
        moments.push(Observation { printed: said.lines().map(str::to_owned).collect(), state: None });
    }
    moments
}

fn walk(history: &History, folder: &Path, telling: ResultForm, moments: &mut Vec<Observation>) {
    let sandbox = Sandbox::with_flavour(history.iptables);
    let mut host = HistoryHost::new(&sandbox, history, folder, telling);
    for step in &history.steps {
        let printed = host.happen(step);
        moments.push(Observation { printed, state: Some(host.seen()) });
    }
}

/// The time limit for the kernel to end a namespace.
const PATIENCE: Duration = Duration::from_secs(60);

/// A private host with the containers of a history.
struct HistoryHost<'h> {
    sandbox: &'h Sandbox,
    telling: ResultForm,
    runtimes: BTreeMap<&'h str, Runtime<'h>>,
    namespaces: BTreeMap<&'h str, Option<Container>>,
    containers: BTreeMap<&'h str, LiveContainer<'h>>,
    /// The configurations, whose MAC addresses are not random.
    kept: String,
}

/// A container, and what the runtime knows of it.
struct LiveContainer<'h> {
    network: &'h str,
    home: &'h str,
    attachment: Attachment,
    added: bool,
}

impl<'h> HistoryHost<'h> {
    fn new(sandbox: &'h Sandbox, history: &'h History, folder: &Path, telling: ResultForm) -> Self {
        let runtime = |list: &Value| Runtime::of_plugins(sandbox, list.clone(), folder);
        let homes: BTreeSet<&str> = history.containers.keys().map(|name| history.home(name)).collect();
        let namespaces: BTreeMap<_, _> = homes.into_iter().map(|home| (home, Some(sandbox.container(home)))).collect();
        let living = |(name, member): (&'h String, &'h NetworkMember)| {
            let home = history.home(name);
            let namespace = namespaces[home].as_deref().expect("namespaces are there at the start");
            (name.as_str(), LiveContainer::new(member, home, namespace))
        };
        Self {
            sandbox,
            telling,
            runtimes: history.networks.iter().map(|(name, list)| (name.as_str(), runtime(list))).collect(),
            containers: history.containers.iter().map(living).collect(),
            namespaces,
            kept: history.to_line(),
        }
    }

    /// Carries out one step, and returns the output of the plugins.
    fn happen(&mut self, step: &HistoryStep) -> Vec<String> {
        match step {
            HistoryStep::Call(verb, name) => return self.call(*verb, name),
            HistoryStep::Collect(network) => return self.collect(network),
            HistoryStep::LoseNamespace(name) => self.lose(name),
            HistoryStep::ForgetResult(name) => self.of(name).attachment.result = None,
            HistoryStep::Flush(rules) => drop(self.sandbox.sh(&rules.command())),
        }
        Vec::new()
    }

    /// The kernel takes its time to end a namespace, and with it the host's ends of its veth pairs.
    fn lose(&mut self, name: &str) {
        let home = self.of(name).home;
        let Some(namespace) = self.namespaces.get_mut(home).and_then(Option::take) else { return };
        let inside = veth_pairs(&namespace);
        let before = veth_pairs(self.sandbox.host());
        namespace.remove();
        let asked = Instant::now();
        while veth_pairs(self.sandbox.host()) + inside > before {
            assert!(asked.elapsed() < PATIENCE, "the kernel still has the links of {name} after {PATIENCE:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn of(&mut self, name: &str) -> &mut LiveContainer<'h> {
        self.containers.get_mut(name).expect("the history has its containers")
    }

    /// Calls the plugins as libcni does: old versions have no CHECK, and a successful DEL ends the attachment. A
    /// container whose namespace was lost gets a new one.
    fn call(&mut self, verb: Verb, name: &str) -> Vec<String> {
        let living = self.containers.get_mut(name).expect("the history has its containers");
        let runtime = &self.runtimes[living.network];
        let version = version_of(runtime);
        let chain = match verb {
            Verb::Add => {
                self.namespaces
                    .entry(living.home)
                    .or_default()
                    .get_or_insert_with(|| self.sandbox.container(living.home));
                living.added = true;
                runtime.add(&mut living.attachment)
            }
            Verb::Check if version < "0.4.0" => return Vec::new(),
            Verb::Check => runtime.check(&living.attachment),
            Verb::Del => runtime.del(&living.attachment),
            Verb::Gc | Verb::Status | Verb::Version => panic!("{verb} concerns no container"),
        };
        if verb == Verb::Del && chain.succeeded() {
            living.attachment.result = None;
            living.added = false;
        }
        self.reported(&chain, version_of(&self.runtimes[self.containers[name].network]))
    }

    fn collect(&self, network: &str) -> Vec<String> {
        let runtime = &self.runtimes[network];
        let wanted = self.containers.values().filter(|living| living.network == network && living.added);
        let chain = runtime.gc(&wanted.map(|living| &living.attachment).collect::<Vec<_>>());
        self.reported(&chain, version_of(runtime))
    }

    fn reported(&self, chain: &Chain, version: &str) -> Vec<String> {
        let reported = |(plugin, outcome): &(String, Outcome)| match self.telling.words {
            ErrorWords::Own if !outcome.succeeded() => vec![format!("{plugin}{FAILS}")],
            ErrorWords::Own | ErrorWords::Compared => {
                printed_by(self.sandbox, self.telling.level, version, (plugin, outcome), &self.kept)
            }
        };
        chain.steps().iter().flat_map(reported).collect()
    }

    fn seen(&self) -> Vec<String> {
        let namespaces = self.namespaces.values().filter_map(Option::as_deref);
        let mut lines = snapshot(self.sandbox, &namespaces.collect::<Vec<_>>(), &self.kept);
        lines.iter_mut().for_each(|line| *line = without_moment(line));
        lines.sort();
        lines
    }
}

fn veth_pairs(namespace: &Namespace) -> usize {
    Network::observe(namespace).links.iter().filter(|link| link.kind.as_deref() == Some("veth")).count()
}

impl<'h> LiveContainer<'h> {
    fn new(member: &'h NetworkMember, home: &'h str, namespace: &Namespace) -> Self {
        let mut attachment = Attachment::new(&member.id, namespace).ifname(&member.ifname).args(&member.args);
        attachment.capabilities.insert("portMappings".to_owned(), member.ports.clone());
        Self { network: &member.network, home, attachment, added: false }
    }
}

fn version_of<'r>(runtime: &'r Runtime<'_>) -> &'r str {
    runtime.list()["cniVersion"].as_str().unwrap_or_default()
}
