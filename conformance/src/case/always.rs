//! What holds for every case.
//!
//! Containers of a network share its bridge, chains that all rules lead through, and forwarding; these stay after DEL. Which these are is
//! not listed anywhere: before the first ADD of a configuration, another container is added and deleted, and what that leaves is shared.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::statfs::{FsType, statfs};

use crate::container::Container;
use crate::namespace::Namespace;
use crate::runtime::{Attachment, Runtime};
use crate::sandbox::Sandbox;
use crate::state::{PAUSE, State, await_none, differences};

/// The file system of namespaces (`linux/magic.h`).
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// Links that are still there after this time stay, such as a gateway into a VLAN.
const SETTLED: Duration = Duration::from_secs(1);

/// Folders of files that plugins remember things in.
const MEMORY: &str = "/.cni-plugins-rs";

/// The parts of an entry that an attachment can do without.
const CACHES: [&str; 6] = ["added", "chain", "deletion", "masquerade", "port", "refusal"];

/// The folder of entries, below which there is one for each network namespace.
const ENTRIES: &str = "/ledger/";

/// A line without what an attachment can do without; `None` if nothing else is in it.
fn without_caches(line: String) -> Option<String> {
    if is_of_cache(&line) {
        return None;
    }
    let Some((about, text)) = line.split_once('"').filter(|(about, _)| about.contains(ENTRIES)) else {
        return Some(line);
    };
    let is_kept = |part: &&str| !CACHES.contains(&part.split(['-', ' ']).next().unwrap_or_default());
    let parts: Vec<&str> = text.trim_end_matches('"').split("\\n").skip(2).filter(is_kept).collect();
    (!parts.is_empty()).then(|| format!("{about}{}", parts.join("; ")))
}

/// Whether a difference is about a file of these, or about an index of leases.
fn is_of_cache(line: &str) -> bool {
    let path = line.split_once("files: ").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
    let Some((folder, below)) = path.split_once(MEMORY) else { return false };
    let mut names = below.trim_start_matches('/').split('/');
    folder != "/run/cni" || names.nth(2).is_some_and(|kind| CACHES.contains(&kind))
}

/// The container that is added and deleted first.
const FIRST: &str = "first-of-its-kind";

/// What was there before the first ADD, and what containers share.
#[derive(Debug, Default)]
pub struct Standing {
    before: Vec<String>,
    shared: BTreeSet<String>,
    /// The configurations whose shared objects are known.
    seen: BTreeSet<String>,
    containers: Vec<Container>,
    /// What is looked at beside the rest.
    view: View,
    /// Whether nothing is asked of it, and nothing looked at: a snapshot takes longer than most calls.
    is_idle: bool,
}

/// What snapshots show beside the rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    /// Rules of address translation in containers.
    pub nat_inside: bool,
    /// What limits or redirects packets.
    pub traffic_control: bool,
    /// What these plugins remember beside the kernel's state. A case for each plugin does without: where others come before them in a list,
    /// some of it stays.
    pub memory: bool,
}

fn lines(sandbox: &Sandbox, view: View) -> Vec<String> {
    let mut lines = State::of_host(sandbox).lasting();
    lines.retain(|line| view.memory || !line.contains(MEMORY));
    lines
}

fn inside(container: &Container, has_nat: bool) -> Vec<String> {
    let mut lines = State::of_namespace(container).lines();
    // The kernel leaves this address on a `lo` that was up once.
    let is_kept = |line: &str| line.ends_with(" addresses: lo 127.0.0.1/8");
    lines.retain(|line| !is_kept(line));
    if has_nat {
        // A container may have rules that iptables cannot read.
        let listed = container.exec(&["iptables", "--wait", "-t", "nat", "-S"]).stdout;
        lines.extend(listed.lines().map(|line| format!("{} nat: {line}", container.name())));
    }
    lines
}

/// Queueing disciplines, without the kernel's own, which have no handle, and filters of what comes in.
fn traffic_control(namespace: &Namespace) -> Vec<String> {
    let mut lines = Vec::new();
    for line in namespace.sh("tc qdisc show").lines() {
        let ["qdisc", kind, handle, "dev", link, ..] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        if handle == "0:" {
            continue;
        }
        lines.push(line.replace(" refcnt 2", "").replace(" refcnt 3", ""));
        if ["ingress", "clsact"].contains(&kind) {
            // The link may go meanwhile.
            let filters = namespace.exec(&["tc", "filter", "show", "dev", link, "ingress"]).stdout;
            lines.extend(filters.lines().filter(|line| !line.contains(" index ")).map(|line| line.trim().to_owned()));
        }
    }
    lines.iter().map(|line| format!("{} traffic control: {line}", namespace.name())).collect()
}

impl Standing {
    /// Remembers what a new host has.
    pub fn of(sandbox: &Sandbox, view: View) -> Self {
        Self { before: lines(sandbox, view), view, ..Self::default() }
    }

    /// For a case that compares nothing.
    pub fn idle() -> Self {
        Self { is_idle: true, ..Self::default() }
    }

    /// Remembers what a new container has.
    pub fn enter(&mut self, container: &Container) {
        if self.is_idle {
            return;
        }
        self.before.extend(inside(container, self.view.nat_inside));
        self.containers.push(container.clone());
    }

    /// All that the host and its living containers have, in lines. Lines of containers begin with their names.
    pub fn now(&self, sandbox: &Sandbox) -> Vec<String> {
        if self.is_idle {
            return Vec::new();
        }
        let living = || self.containers.iter().filter(|container| is_mounted(container));
        let places =
            living().map(|container| &**container).chain([sandbox.host()]).filter(|_| self.view.traffic_control);
        let controlled = places.flat_map(traffic_control);
        let inside = living().flat_map(|one| inside(one, self.view.nat_inside));
        lines(sandbox, self.view).into_iter().chain(inside).chain(controlled).collect()
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

    /// The same, but for files that plugins can do without, and remove when they are in the way.
    ///
    /// # Panics
    /// Otherwise, with the differences.
    #[track_caller]
    pub fn assert_all_but_caches_unchanged_since(&self, before: &[String], sandbox: &Sandbox) {
        self.await_nothing(|| {
            let lasting = |lines: Vec<String>| lines.into_iter().filter_map(without_caches).collect::<Vec<_>>();
            differences(&lasting(before.to_vec()), &lasting(self.now(sandbox)))
        });
    }

    /// Waits until there are no differences but what is shared: the kernel deletes links after their namespace has ended.
    #[track_caller]
    fn await_nothing(&self, differences: impl Fn() -> Vec<String>) {
        let is_own = |line: &String| !self.shared.contains(line);
        await_none(|| differences().into_iter().filter(is_own).collect());
    }

    /// Takes what the script has done itself since then, such as files and links that it made, as there before. Returns what is there now.
    pub fn rebase(&mut self, sandbox: &Sandbox, before: &[String]) -> Vec<String> {
        let now = self.now(sandbox);
        self.shared.extend(differences(before, &now));
        now
    }

    /// Finds what containers with this configuration share, once for each.
    pub fn learn(&mut self, sandbox: &Sandbox, runtime: &Runtime<'_>, like: &Attachment) {
        let key = format!("{} {:?} {:?} {}", runtime.list(), runtime.environment(), like.capabilities, like.args);
        if !self.seen.insert(key) {
            return;
        }
        let before = lines(sandbox, self.view);
        let container = sandbox.container(FIRST);
        let mut first =
            Attachment { container_id: FIRST.to_owned(), netns: container.path().to_owned(), ..like.clone() };
        first.result = None;
        // What cannot be added shares nothing: the script says what happens.
        runtime.add(&mut first);
        runtime.del(&first);
        container.remove();
        sandbox.exec(&["find", "/run", "/var/lib/cni", "-name", "last_reserved_ip.*", "-delete"]);
        let (mut since, mut last) = (Instant::now(), Vec::new());
        loop {
            let left = differences(&before, &lines(sandbox, self.view));
            let is_late = |line: &String| line.contains(" links: ") && (line.contains(FIRST) || line.contains("veth"));
            if !left.iter().any(is_late) || since.elapsed() > SETTLED {
                self.shared.extend(left);
                return;
            }
            if left != last {
                (since, last) = (Instant::now(), left);
            }
            thread::sleep(PAUSE);
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
