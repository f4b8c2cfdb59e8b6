//! What all workers share: the private host with its networks, the living containers and the violations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use cni_conformance::child::{self, Finished, Limit};
use cni_conformance::{Namespace, Runtime, reference};

use crate::networks::{NetworkTemplate, Router};

/// How long a plugin or the administrator's tool may take on the busy host.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The private host with its networks, and the plugins to test.
pub struct Context<'s> {
    pub seed: u64,
    pub host: Namespace,
    /// The namespace of the clients of host ports.
    pub outside: Namespace,
    pub networks: &'s [NetworkTemplate],
    /// The namespaces behind the master interfaces of macvlan.
    pub routers: BTreeMap<&'static str, Namespace>,
    /// A runtime that calls our plugins.
    pub ours: Runtime<'s>,
    /// A runtime that calls the reference's plugins.
    pub reference: Option<Runtime<'s>>,
    pub folder: PathBuf,
    /// The environment variable with the address of firewalld's bus.
    pub bus: (&'static str, String),
    pub shared: SharedState,
}

/// What the workers write.
#[derive(Default)]
pub struct SharedState {
    /// Held for reading while a container is added, and for writing while rules are flushed: no plugin promises to survive a
    /// flush during ADD.
    pub rules: RwLock<()>,
    reference_enabled: AtomicBool,
    living: Mutex<BTreeMap<String, u64>>,
    violations: Mutex<Vec<String>>,
    history: Mutex<Vec<String>>,
    added_count: Mutex<u64>,
}

impl<'s> Context<'s> {
    /// Sets whether the reference's plugins are called.
    pub fn set_reference_enabled(&self, on: bool) {
        self.shared.reference_enabled.store(on, Ordering::Relaxed);
    }

    /// Whether the reference's plugins can be called now.
    pub fn is_reference_enabled(&self) -> bool {
        self.reference.is_some() && self.shared.reference_enabled.load(Ordering::Relaxed)
    }

    /// Whether they can be called for a network now.
    pub fn has_reference_for(&self, network: &NetworkTemplate) -> bool {
        network.is_for_reference && self.is_reference_enabled()
    }

    /// The runtime for a network, with our plugins or the reference's.
    pub fn runtime(&self, network: &NetworkTemplate, device: &str, by_reference: bool) -> Runtime<'s> {
        let reference = self.reference.as_ref().filter(|_| by_reference);
        reference.unwrap_or(&self.ours).clone().listing(network.list(device))
    }

    /// The namespace from which a network's containers are reached.
    pub fn router(&self, network: &NetworkTemplate) -> Option<&Namespace> {
        Some(match network.reached_from? {
            Router::Host => &self.host,
            Router::Lan(name) => &self.routers[name],
        })
    }

    /// Notes that a container has its interface, and must not be harmed from now on.
    pub fn note_added(&self, id: &str) {
        let mut added_count = locked(&self.shared.added_count);
        *added_count += 1;
        locked(&self.shared.living).insert(id.to_owned(), *added_count);
    }

    /// Notes that a container is about to be deleted, or has ended.
    pub fn note_ending(&self, id: &str) {
        locked(&self.shared.living).remove(id);
    }

    /// The living containers, each with a number that changes when it is added again.
    pub fn living(&self) -> BTreeSet<(String, u64)> {
        locked(&self.shared.living).iter().map(|(id, number)| (id.clone(), *number)).collect()
    }

    /// How many containers have been added.
    pub fn added_count(&self) -> u64 {
        *locked(&self.shared.added_count)
    }

    /// Adds a line to the history.
    pub fn note(&self, line: String) {
        locked(&self.shared.history).push(line);
    }

    /// Counts a violation, and prints it with the history of its containers.
    pub fn violation(&self, about: &[&str], text: &str) {
        let history = locked(&self.shared.history);
        let lines = history.iter().filter(|line| about.iter().any(|id| line.contains(id)));
        let lines: Vec<_> = lines.map(|line| format!("\n    {line}")).collect();
        let lines = &lines[lines.len().saturating_sub(24)..];
        reference::say(&format!("VIOLATION (seed {}): {text}{}", self.seed, lines.concat()));
        locked(&self.shared.violations).push(text.to_owned());
    }

    /// The number of violations.
    pub fn count_violations(&self) -> usize {
        locked(&self.shared.violations).len()
    }

    /// Runs the administrator's tool.
    pub fn tool(&self, words: &[&str]) -> Finished {
        let mut command = std::process::Command::new(self.folder.join("cni-plugins"));
        command.args(words).env_clear().env("PATH", self.search_path()).env("LC_ALL", "C");
        command.env(self.bus.0, &self.bus.1);
        child::run(command, b"", Limit::Fail(DEADLINE))
    }

    /// The search path for programs.
    pub fn search_path(&self) -> &'s str {
        self.ours.search_path()
    }

    /// Whether an address is neither a loopback nor a link-local one.
    pub fn is_ours(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => !v4.is_loopback(),
            IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
        }
    }
}

/// Locks, also after a panic of another thread, which is reported there.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a folder has the plugins.
pub fn has_plugins(folder: &Path) -> bool {
    folder.join("bridge").is_file()
}
