//! Snapshots of everything that plugins may change, as lines of text.
//!
//! A [`State`] holds links, addresses and routes of the host and of containers, the rules of iptables and ip6tables,
//! other nftables tables, files below `/run` and `/var/lib/cni`, and kernel settings. [`diff`] compares two of them in
//! readable lines. What changes by itself (indices, link-local addresses, counters) is left out.

mod files;
mod lines;
mod rules;
mod settings;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

pub use lines::differences;

use crate::namespace::Namespace;
use crate::network::Network;
use crate::sandbox::Sandbox;

/// A snapshot: lines by section, such as `iptables nat` or `host links`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    sections: BTreeMap<String, Vec<String>>,
}

/// The plugins' notes of handles of rules: which there are depends on what was listed last.
const HANDLES: &str = "/run/cni/.cni-plugins-rs/handles";

/// The time limit for the kernel, which deletes links after their namespace has ended.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long it is left alone between two looks.
pub const PAUSE: Duration = Duration::from_millis(20);

/// Lines of the state that differ between any two calls: where host-local looks next, the handles of rules, locks, when
/// `repair` ran last, the folder of the runtime's cache, and the marks of refused ADDs, which stay while something has the name.
const CHANGING: [&str; 8] = [
    "/refusal",
    "/var/lib/cni/results 40755",
    "/.cni-plugins-rs/repaired ",
    ".lock 100600 \"\"",
    "/last_reserved_ip.",
    "handles: ",
    "/.cni-plugins-rs/stamp ",
    "/.cni-plugins-rs/index",
];

impl State {
    /// Takes a snapshot of the host and of the given containers.
    ///
    /// # Panics
    /// When something cannot be read.
    pub fn capture(sandbox: &Sandbox, containers: &[&Namespace]) -> Self {
        let mut sections = BTreeMap::new();
        for namespace in [sandbox.host()].into_iter().chain(containers.iter().copied()) {
            sections.extend(of_namespace(namespace));
        }
        sections.extend(rules::read(sandbox));
        let (handles, files) = files::read().into_iter().partition(|line| line.contains(HANDLES));
        sections.insert("files".to_owned(), files);
        sections.insert("handles".to_owned(), handles);
        Self { sections }
    }

    /// Takes a snapshot of a namespace alone: links, addresses, routes and settings.
    ///
    /// # Panics
    /// When something cannot be read.
    pub fn of_namespace(namespace: &Namespace) -> Self {
        Self { sections: of_namespace(namespace).into() }
    }

    /// Takes a snapshot of the host, without containers.
    pub fn of_host(sandbox: &Sandbox) -> Self {
        Self::capture(sandbox, &[])
    }

    /// Returns the lines of one section.
    ///
    /// # Panics If there is no such section.
    #[track_caller]
    pub fn section(&self, name: &str) -> &[String] {
        let known = || self.sections.keys().cloned().collect::<Vec<_>>();
        self.sections.get(name).unwrap_or_else(|| panic!("no section {name:?} in {:?}", known()))
    }

    /// Returns the snapshot without sections whose names contain `part`.
    #[must_use]
    pub fn without(mut self, part: &str) -> Self {
        self.sections.retain(|name, _| !name.contains(part));
        self
    }

    /// Returns all lines, each behind the name of its section.
    pub fn lines(&self) -> Vec<String> {
        let named =
            self.sections.iter().flat_map(|(name, lines)| lines.iter().map(move |line| format!("{name}: {line}")));
        named.collect()
    }

    /// Returns the lines without what differs between any two calls, and belongs to no container.
    pub fn lasting(&self) -> Vec<String> {
        let mut lines = self.lines();
        let is_own_folder = |line: &str| line.contains("/.cni-plugins-rs") && line.ends_with(" 40700");
        lines.retain(|line| !CHANGING.iter().any(|part| line.contains(part)) && !is_own_folder(line));
        // An index of leases that was made anew has them in another order.
        for line in lines.iter_mut().filter(|line| line.contains("#host-local leases")) {
            let mut leases: Vec<&str> = line.split("\\n").collect();
            leases.sort_unstable();
            *line = leases.join("\\n");
        }
        lines
    }
}

/// Waits until there are no differences.
///
/// # Panics
/// With those that stay.
#[track_caller]
pub fn await_none(differences: impl Fn() -> Vec<String>) {
    let started = Instant::now();
    loop {
        let left = differences();
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "this is left (+), or missing (-):\n{}", left.join("\n"));
        thread::sleep(PAUSE);
    }
}

/// Returns what changed, as `- line` and `+ line`; nothing when the snapshots are equal.
pub fn diff(before: &State, after: &State) -> Vec<String> {
    differences(&before.lines(), &after.lines())
}

/// Requires that nothing changed.
///
/// # Panics
/// Otherwise, with all changed lines.
#[track_caller]
pub fn assert_same(before: &State, after: &State) {
    let changes = diff(before, after);
    assert!(changes.is_empty(), "the state changed:\n{}", changes.join("\n"));
}

fn of_namespace(namespace: &Namespace) -> [(String, Vec<String>); 4] {
    let Network { mut links, addresses, routes, other_routes, rules } = Network::observe(namespace);
    links.sort_by(|a, b| a.name.cmp(&b.name));
    let addresses = addresses.iter().filter(|address| !address.is_link_local());
    let routes = routes.iter().chain(&other_routes).filter(|route| !route.destination.starts_with("fe80:"));
    let name = namespace.name();
    [
        (format!("{name} links"), links.iter().map(ToString::to_string).collect()),
        (format!("{name} addresses"), addresses.map(ToString::to_string).collect()),
        (format!("{name} routes"), routes.map(ToString::to_string).chain(rules).collect()),
        (format!("{name} settings"), settings::read(namespace)),
    ]
}
