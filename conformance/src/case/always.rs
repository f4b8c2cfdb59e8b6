//! What holds for every case.
//!
//! Containers of a network share its bridge, chains that all rules lead through, and forwarding; these stay after DEL. Which these are is
//! not listed anywhere: before the first ADD of a configuration, another container is added and deleted, and what that leaves is shared.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::statfs::{FsType, statfs};

use crate::container::Container;
use crate::runtime::{Attachment, Runtime};
use crate::sandbox::Sandbox;
use crate::state::State;
use crate::state::differences;

/// The time limit for the kernel, which deletes links after their namespace has ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// The file system of namespaces (`linux/magic.h`).
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// The container that is added and deleted first.
const FIRST: &str = "first-of-its-kind";

/// Lines of the state that differ between any two calls: where host-local looks next, the handles of rules, locks, and the marks of refused
/// ADDs, which stay while something has the name.
const CHANGING: [&str; 6] = [
    "/refused",
    ".lock 100600 \"\"",
    "/last_reserved_ip.",
    "handles: ",
    "/.cni-plugins-rs/stamp ",
    "/.cni-plugins-rs/index",
];

/// What was there before the first ADD, and what containers share.
#[derive(Debug, Default)]
pub struct Standing {
    before: Vec<String>,
    shared: BTreeSet<String>,
    /// The configurations whose shared objects are known.
    seen: BTreeSet<String>,
    containers: Vec<Container>,
}

fn lines(sandbox: &Sandbox) -> Vec<String> {
    let mut lines = State::of_host(sandbox).lines();
    let is_own_folder = |line: &str| line.contains("/.cni-plugins-rs") && line.ends_with(" 40700");
    lines.retain(|line| !CHANGING.iter().any(|part| line.contains(part)) && !is_own_folder(line));
    lines
}

fn inside(sandbox: &Sandbox, container: &Container) -> Vec<String> {
    let mut lines = State::capture(sandbox, &[container]).lines();
    lines.retain(|line| line.starts_with(&format!("{} ", container.name())));
    lines
}

impl Standing {
    /// Remembers what a new host has.
    pub fn of(sandbox: &Sandbox) -> Self {
        Self { before: lines(sandbox), ..Self::default() }
    }

    /// Remembers what a new container has.
    pub fn enter(&mut self, sandbox: &Sandbox, container: &Container) {
        self.before.extend(inside(sandbox, container));
        self.containers.push(container.clone());
    }

    /// All that the host and its living containers have, in lines. Lines of containers begin with their names.
    pub fn now(&self, sandbox: &Sandbox) -> Vec<String> {
        let living = self.containers.iter().filter(|container| is_mounted(container));
        lines(sandbox).into_iter().chain(living.flat_map(|container| inside(sandbox, container))).collect()
    }

    /// Forgets a container that the script has ended.
    pub fn leave(&mut self, name: &str) {
        self.containers.retain(|container| container.name() != name);
        self.before.retain(|line| !line.starts_with(&format!("{name} ")));
    }

    /// Requires that the host is as it was then, but for what is shared.
    ///
    /// # Panics
    /// Otherwise, with the differences.
    #[track_caller]
    pub fn assert_unchanged_since(&self, before: &[String], sandbox: &Sandbox) {
        self.await_nothing(|| differences(before, &self.now(sandbox)));
    }

    /// Waits until there are no differences but what is shared: the kernel deletes links after their namespace has ended.
    #[track_caller]
    fn await_nothing(&self, differences: impl Fn() -> Vec<String>) {
        let started = Instant::now();
        loop {
            let mut left = differences();
            left.retain(|line| !self.shared.contains(line));
            if left.is_empty() {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "this is left (+), or missing (-):\n{}", left.join("\n"));
        }
    }

    /// Takes what the script has done itself since then, such as files and links that it made, as there before.
    pub fn rebase(&mut self, sandbox: &Sandbox, before: &[String]) {
        self.shared.extend(differences(before, &self.now(sandbox)));
    }

    /// Finds what containers with this configuration share, once for each.
    pub fn learn(&mut self, sandbox: &Sandbox, runtime: &Runtime<'_>, like: &Attachment) {
        let key = format!("{} {:?} {}", runtime.list(), like.capabilities, like.args);
        if !self.seen.insert(key) {
            return;
        }
        let before = lines(sandbox);
        let container = sandbox.container(FIRST);
        let mut first =
            Attachment { container_id: FIRST.to_owned(), netns: container.path().to_owned(), ..like.clone() };
        first.result = None;
        // What cannot be added shares nothing: the script says what happens.
        runtime.add(&mut first);
        runtime.del(&first);
        container.remove();
        sandbox.exec(&["sh", "-c", "find /run /var/lib/cni -name 'last_reserved_ip.*' -delete"]);
        let started = Instant::now();
        loop {
            let left = differences(&before, &lines(sandbox));
            if !left.iter().any(|line| line.contains(FIRST) || line.contains("veth")) || started.elapsed() > PATIENCE {
                self.shared.extend(left);
                return;
            }
        }
    }

    /// Requires that the host and the containers that live are as before, but for what is shared.
    ///
    /// # Panics
    /// Otherwise, with the differences.
    #[track_caller]
    pub fn assert_restored(&self, sandbox: &Sandbox) {
        self.await_nothing(|| {
            let ended = |line: &&String| {
                self.containers.iter().any(|one| !is_mounted(one) && line.starts_with(&format!("{} ", one.name())))
            };
            let before: Vec<String> = self.before.iter().filter(|line| !ended(line)).cloned().collect();
            differences(&before, &self.now(sandbox))
        });
    }
}

/// Whether a container lives: its path leads to a namespace, not to a plain file.
pub fn is_mounted(container: &Container) -> bool {
    statfs(container.path()).is_ok_and(|about| about.filesystem_type() == NSFS_MAGIC)
}
