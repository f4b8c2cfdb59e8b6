//! What all workers share: the private host with its networks, who is alive, and what was wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use cni_conformance::child::{self, Finished, Limit};
use cni_conformance::{Namespace, Runtime, reference};

use crate::networks::{Network, Router};

/// How long a plugin, or the administrator's tool, may take beside all others.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The private host.
pub struct Stage<'s> {
    pub seed: u64,
    pub host: Namespace,
    /// Where clients of host ports are.
    pub outside: Namespace,
    pub networks: &'s [Network],
    /// The namespaces behind the masters of macvlan.
    pub routers: BTreeMap<&'static str, Namespace>,
    /// A runtime for ours, with any list.
    pub ours: Runtime<'s>,
    /// One for the reference's plugins.
    reference: Option<Runtime<'s>>,
    takes_part: AtomicBool,
    pub folder: PathBuf,
    /// The variable that says where firewalld's bus is.
    pub bus: (&'static str, String),
    /// Held for reading while a container is added, and for writing while rules are flushed: no plugin promises to survive a
    /// flush in its middle.
    pub rules: RwLock<()>,
    living: Mutex<BTreeMap<String, u64>>,
    violations: Mutex<Vec<String>>,
    history: Mutex<Vec<String>>,
    births: Mutex<u64>,
}

/// What a stage begins with.
pub struct Props<'s> {
    pub seed: u64,
    pub host: Namespace,
    pub outside: Namespace,
    pub networks: &'s [Network],
    pub routers: BTreeMap<&'static str, Namespace>,
    pub ours: Runtime<'s>,
    pub reference: Option<Runtime<'s>>,
    pub folder: PathBuf,
    pub bus: (&'static str, String),
}

impl<'s> Stage<'s> {
    pub fn new(props: Props<'s>) -> Self {
        let Props { seed, host, outside, networks, routers, ours, reference, folder, bus } = props;
        Self {
            seed,
            host,
            outside,
            networks,
            routers,
            ours,
            reference,
            takes_part: AtomicBool::new(false),
            folder,
            bus,
            rules: RwLock::new(()),
            living: Mutex::default(),
            violations: Mutex::default(),
            history: Mutex::default(),
            births: Mutex::default(),
        }
    }

    /// Lets the reference's plugins take part, or not.
    pub fn let_reference_take_part(&self, on: bool) {
        self.takes_part.store(on, Ordering::Relaxed);
    }

    /// Tells whether the reference's plugins can be called for a network now.
    pub fn has_reference_for(&self, network: &Network) -> bool {
        self.reference.is_some() && network.is_for_reference && self.takes_part.load(Ordering::Relaxed)
    }

    /// The runtime with a network's list, by ours or by the reference's plugins.
    pub fn runtime(&self, network: &Network, device: &str, by_reference: bool) -> Runtime<'s> {
        let reference = self.reference.as_ref().filter(|_| by_reference);
        reference.unwrap_or(&self.ours).clone().listing(network.list(device))
    }

    /// The namespace from which a network's containers are reached.
    pub fn router(&self, network: &Network) -> Option<&Namespace> {
        Some(match network.reached_from? {
            Router::Host => &self.host,
            Router::Lan(name) => &self.routers[name],
        })
    }

    /// Notes that a container has got its interface, and is not to be touched.
    pub fn is_born(&self, id: &str) {
        let mut births = locked(&self.births);
        *births += 1;
        locked(&self.living).insert(id.to_owned(), *births);
    }

    /// Notes that a container is about to be deleted, or has ended.
    pub fn is_ending(&self, id: &str) {
        locked(&self.living).remove(id);
    }

    /// Who lives, each with a number that is another when it is added again.
    pub fn living(&self) -> BTreeSet<(String, u64)> {
        locked(&self.living).iter().map(|(id, birth)| (id.clone(), *birth)).collect()
    }

    /// How many containers have been added.
    pub fn births(&self) -> u64 {
        *locked(&self.births)
    }

    /// Writes down what is done.
    pub fn note(&self, line: String) {
        locked(&self.history).push(line);
    }

    /// Writes down what must not be, and says it with what was done to the containers that it is about.
    pub fn violation(&self, about: &[&str], text: &str) {
        let history = locked(&self.history);
        let told = history.iter().filter(|line| about.iter().any(|id| line.contains(id)));
        let told: Vec<_> = told.map(|line| format!("\n    {line}")).collect();
        let told = &told[told.len().saturating_sub(24)..];
        reference::say(&format!("VIOLATION (seed {}): {text}{}", self.seed, told.concat()));
        locked(&self.violations).push(text.to_owned());
    }

    /// How often something was wrong.
    pub fn count_violations(&self) -> usize {
        locked(&self.violations).len()
    }

    /// Runs the administrator's tool.
    pub fn tool(&self, words: &[&str]) -> Finished {
        let mut command = std::process::Command::new(self.folder.join("cni-plugins"));
        command.args(words).env_clear().env("PATH", self.search_path()).env("LC_ALL", "C");
        command.env(self.bus.0, &self.bus.1);
        child::run(command, b"", Limit::Fail(DEADLINE))
    }

    /// The folders in which programs are looked for.
    pub fn search_path(&self) -> &'s str {
        self.ours.search_path()
    }

    /// Whether an address is one of a network of tests, and not a loopback or link-local one.
    pub fn is_ours(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => !v4.is_loopback(),
            IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
        }
    }
}

/// A panic elsewhere is told of there.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells whether a folder has the plugins.
pub fn has_plugins(folder: &Path) -> bool {
    folder.join("bridge").is_file()
}
