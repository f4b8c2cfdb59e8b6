//! Paths to every network namespace that threads are in or that processes hold open, or that is mounted somewhere.
//!
//! Each thread has a network namespace. If a process has only one thread, the folder `task` is not read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cni_kernel::netns::Netns;
use nix::fcntl::readlinkat;

use super::limits::{Gaps, Limits};
use super::mount_namespaces::{self, MOUNT, MountNamespaces, MountTable, NETWORK, below};
use crate::inhabitants::numbers;

/// So many paths are kept of one namespace: a process may end before its path is used.
const MOST_PATHS: usize = 8;

/// So many mount namespaces without a process are kept open.
const MOST_ROOTS: usize = 64;

/// The hard links that the folder `task` of a process with one thread has (`proc_task_getattr` of `fs/proc/base.c`).
const LINKS_OF_ONE_THREAD: u64 = 3;

/// `KCMP_FILES` of `linux/kcmp.h`: whether two threads have the same table of descriptors.
const SAME_DESCRIPTORS: libc::c_int = 2;

/// The paths, and what could not be read.
#[derive(Debug)]
pub struct Paths {
    limits: Limits,
    /// Those of each namespace, by the kernel's name for it.
    by_name: BTreeMap<String, Vec<PathBuf>>,
    /// The namespaces whose paths were taken.
    known: BTreeSet<String>,
    /// The namespaces to open when a path to them is seen.
    wanted: BTreeSet<String>,
    /// Those that could be opened; `None` for one that the limits exclude.
    pub opened: BTreeMap<String, Option<Netns>>,
    pub gaps: Gaps,
    mounts: MountNamespaces,
    /// The folders of descriptors.
    tables: Vec<String>,
    /// The roots of mount namespaces that paths begin with.
    pub roots: Vec<OwnedFd>,
}

impl Paths {
    /// Knows nothing yet, and leaves out what is known.
    pub fn new(limits: Limits, known: BTreeSet<String>) -> Self {
        Self {
            limits,
            by_name: BTreeMap::new(),
            known,
            wanted: BTreeSet::new(),
            opened: BTreeMap::new(),
            gaps: Gaps::default(),
            mounts: MountNamespaces::default(),
            tables: Vec::new(),
            roots: Vec::new(),
        }
    }

    /// Opens these namespaces as soon as a path to them is seen: it may lead nowhere a moment later.
    pub fn opening(mut self, names: &[String]) -> Self {
        self.wanted.extend(names.iter().cloned());
        self
    }

    /// Takes what was found since the last time.
    pub fn take(&mut self) -> BTreeMap<String, Vec<PathBuf>> {
        self.known.extend(self.by_name.keys().cloned());
        std::mem::take(&mut self.by_name)
    }

    /// Goes over all threads, and over what is mounted where they are.
    pub fn observe_threads(&mut self) {
        let Some(processes) = self.or_gap("/proc", numbers("/proc")) else { return };
        for process in processes {
            if self.limits.are_reached() {
                return;
            }
            self.look_at_process(&format!("/proc/{process}"));
        }
    }

    /// Goes over the descriptors of the processes that were seen, and over mounts that none of these can see.
    pub fn observe_hidden(&mut self) {
        for table in std::mem::take(&mut self.tables) {
            if self.limits.are_reached() {
                return;
            }
            self.look_at_descriptors(&table);
        }
        while let Some((name, paths)) = self.mounts.take_partial() {
            if self.limits.are_reached() {
                return;
            }
            self.look_into_mounts(&name, &paths);
        }
    }

    fn look_at_process(&mut self, folder: &str) {
        let tasks = format!("{folder}/task");
        match self.or_gap(&tasks, fs::metadata(&tasks)) {
            None => {}
            Some(found) if found.nlink() == LINKS_OF_ONE_THREAD => {
                self.look_at_thread(folder);
                self.tables.push(format!("{folder}/fd"));
            }
            Some(_) => {
                let mut owners = Vec::new();
                for thread in self.or_gap(&tasks, numbers(&tasks)).into_iter().flatten() {
                    let folder = format!("{tasks}/{thread}");
                    self.look_at_thread(&folder);
                    let (first, last) = (owners.first().copied(), owners.last().copied());
                    if !first.into_iter().chain(last).any(|owner| have_same_descriptors(owner, thread)) {
                        owners.push(thread);
                        self.tables.push(format!("{folder}/fd"));
                    }
                }
            }
        }
    }

    fn look_at_thread(&mut self, thread: &str) {
        let own = format!("{thread}/ns/net");
        if let Some(name) = self.target(&own) {
            self.offer(name, PathBuf::from(own));
        }
        let place = format!("{thread}/ns/mnt");
        if let Some(name) = self.target(&place)
            && self.mounts.add(&name, PathBuf::from(place))
        {
            self.look_at_mounts(thread, &name);
        }
    }

    /// Reads the mounts that a thread sees in a mount namespace, unless one with the same root has shown them.
    fn look_at_mounts(&mut self, thread: &str, namespace: &str) {
        let place = format!("{thread}/root");
        let Some(root) = self.or_gap(&place, fs::read_link(&place)) else { return };
        if !self.mounts.is_new_root(namespace, &root) {
            return;
        }
        // What is mounted may be covered, so that it can be found and not opened.
        if self.limits.user.is_some()
            && Netns::open(format!("{thread}/ns/mnt")).is_ok_and(|mounts| self.limits.exclude(&mounts))
        {
            return self.mounts.set_whole(namespace);
        }
        let file = format!("{thread}/mountinfo");
        let Some(text) = self.or_gap(&file, fs::read(&file)) else { return };
        let table = MountTable::parse(&text);
        if table.has_root && root == Path::new("/") {
            self.mounts.set_whole(namespace);
        }
        self.offer_mounted(table, Path::new(&place));
    }

    fn offer_mounted(&mut self, table: MountTable, root: &Path) {
        for (name, place) in table.networks {
            self.offer(name, below(root, &place));
        }
        for (name, place) in table.mounts {
            self.mounts.add(&name, below(root, &place));
        }
    }

    /// Enters a mount namespace, which has no process that sees all of its mounts.
    fn look_into_mounts(&mut self, name: &str, paths: &[PathBuf]) {
        for path in paths {
            match mount_namespaces::enter(path, name, self.limits) {
                Ok(Some(entered)) => {
                    let root = entered.path();
                    let is_of_use = !entered.table.networks.is_empty() || !entered.table.mounts.is_empty();
                    if is_of_use && self.roots.len() == MOST_ROOTS {
                        self.gaps
                            .add(format!("{name} is one of more than {MOST_ROOTS} mount namespaces without a process"));
                    } else if is_of_use {
                        self.offer_mounted(entered.table, &root);
                        self.roots.push(entered.root);
                    }
                    return;
                }
                Ok(None) => {}
                Err(error) => {
                    self.gaps.add(error.in_full());
                    return;
                }
            }
        }
    }

    fn look_at_descriptors(&mut self, folder: &str) {
        let opened = File::open(folder).and_then(|opened| Ok((opened, fs::read_dir(folder)?)));
        let Some((opened, entries)) = self.or_gap(folder, opened) else { return };
        for (count, entry) in entries.flatten().enumerate() {
            if count == self.limits.descriptors {
                self.gaps.add(format!("{folder} has more than {count} descriptors"));
                return;
            }
            let name = entry.file_name();
            let target = readlinkat(&opened, name.as_os_str()).map_err(io::Error::from);
            let Some(target) = self.or_gap(folder, target).and_then(|target| target.into_string().ok()) else {
                continue;
            };
            if target.starts_with(NETWORK) {
                self.offer(target, entry.path());
            } else if target.starts_with(MOUNT) {
                self.mounts.add(&target, entry.path());
            }
        }
    }

    fn offer(&mut self, name: String, path: PathBuf) {
        if self.wanted.contains(&name)
            && let Ok(netns) = Netns::open(&path)
            && netns.name().is_ok_and(|found| found == name)
        {
            self.wanted.remove(&name);
            // A user may have more of them than this process may have descriptors.
            self.opened.insert(name.clone(), Some(netns).filter(|netns| !self.limits.exclude(netns)));
        }
        if !self.known.contains(&name) {
            let paths = self.by_name.entry(name).or_default();
            if paths.len() < MOST_PATHS {
                paths.push(path);
            }
        }
    }

    /// Where a link of `/proc` leads; `None` when its thread has ended.
    fn target(&mut self, path: &str) -> Option<String> {
        let target = self.or_gap(path, fs::read_link(path))?;
        target.into_os_string().into_string().ok()
    }

    /// What was read; `None` when the thread has ended, or is not to be seen.
    fn or_gap<T>(&mut self, path: &str, read: io::Result<T>) -> Option<T> {
        read.inspect_err(|error| {
            if !has_ended(error) {
                self.gaps.add(format!("{path}: {error}"));
            }
        })
        .ok()
    }
}

/// A thread that has ended has no files, and one that nobody has waited for yet is in no mount namespace.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::EINVAL))
}

/// Whether two threads certainly have the same table of descriptors (kcmp(2)).
fn have_same_descriptors(one: i32, other: i32) -> bool {
    // SAFETY: the call has numbers as arguments and changes nothing.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, SAME_DESCRIPTORS, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ended_thread_is_no_gap() {
        let mut paths = Paths::new(Limits::NONE, BTreeSet::new());
        for errno in [libc::ENOENT, libc::ESRCH, libc::EINVAL] {
            assert_eq!(paths.or_gap::<()>("p", Err(io::Error::from_raw_os_error(errno))), None);
            assert_eq!(paths.gaps.text(), None);
        }
        paths.or_gap::<()>("/proc/7/ns/net", Err(io::Error::from_raw_os_error(libc::EACCES)));
        assert_eq!(paths.gaps.text().as_deref(), Some("/proc/7/ns/net: Permission denied (os error 13)"));
    }

    #[test]
    fn threads_of_a_process_have_the_same_descriptors() {
        let own = nix::unistd::gettid().as_raw();
        let other = std::thread::scope(|scope| {
            let thread = scope.spawn(|| have_same_descriptors(own, nix::unistd::gettid().as_raw()));
            thread.join().expect("no panic")
        });
        assert!(other);
        assert!(!have_same_descriptors(own, 1) || own == 1);
    }

    #[test]
    fn more_descriptors_than_the_limit_are_a_gap() {
        let mut paths = Paths::new(Limits { descriptors: 1, ..Limits::NONE }, BTreeSet::new());
        paths.look_at_descriptors("/proc/self/fd");
        assert_eq!(paths.gaps.text().as_deref(), Some("/proc/self/fd has more than 1 descriptors"));
    }
}
