//! The plugins that run at this moment, whoever has made them: the environment of each says what it does, and for
//! which attachment.
//!
//! Ours exclude each other by locks. Of the others' work this is all that can be seen, and only while one of them
//! runs: between two plugins of a list there is none.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cni_core::names::Attachment;

const PROCESSES: &str = "/proc";

/// The DELs that are under way on this host.
#[derive(Debug, Default)]
pub struct RunningDeletions(Vec<Vec<u8>>);

impl RunningDeletions {
    /// Looks at all processes in the network namespace of this one. One whose environment cannot be read has ended, or is
    /// another user's.
    pub fn observe() -> Self {
        Self::of(Path::new(PROCESSES))
    }

    fn of(processes: &Path) -> Self {
        let deletions = calls(processes).into_iter();
        Self(deletions.filter(|environment| has(environment, "CNI_COMMAND", "DEL")).collect())
    }

    /// Whether a plugin, or a program that it has started, deletes an interface of this name of the container.
    pub fn contains(&self, at: &Attachment) -> bool {
        self.0.iter().any(|environment| is_about(environment, at))
    }
}

/// Deletions that are looked for again when what was seen is old. So much time goes by between two looks that looking
/// takes a small part of it, however many processes there are.
#[derive(Debug)]
pub struct WatchedDeletions {
    seen: RunningDeletions,
    looked: Instant,
    rest: Duration,
}

/// How long a look is good for, at least.
const FRESH: Duration = Duration::from_millis(100);

/// How many times as long as it took.
const SHARE: u32 = 10;

impl Default for WatchedDeletions {
    fn default() -> Self {
        let looked = Instant::now();
        let seen = RunningDeletions::observe();
        Self { seen, rest: FRESH.max(looked.elapsed() * SHARE), looked }
    }
}

impl WatchedDeletions {
    /// Whether an interface of this name of the container is being deleted, or was when it was last looked at.
    pub fn contain(&mut self, at: &Attachment) -> bool {
        if self.looked.elapsed() > self.rest {
            *self = Self::default();
        }
        self.seen.contains(at)
    }
}

/// The calls of plugins that are under way on this host, whatever they do.
#[derive(Debug, Default)]
pub struct RunningCalls(Vec<Vec<u8>>);

impl RunningCalls {
    /// As [`RunningDeletions::observe`].
    pub fn observe() -> Self {
        Self(calls(Path::new(PROCESSES)))
    }

    /// Whether a plugin, or a program that it has started, works on an interface of this name of the container.
    pub fn contains(&self, at: &Attachment) -> bool {
        self.0.iter().any(|environment| is_about(environment, at))
    }
}

/// The environments of all plugins that run in the network namespace of this process.
fn calls(processes: &Path) -> Vec<Vec<u8>> {
    let host = host_of(&processes.join("self"));
    let folders = fs::read_dir(processes).into_iter().flatten().flatten().map(|entry| entry.path());
    let calls = folders.filter_map(|folder| Some((fs::read(folder.join("environ")).ok()?, folder)));
    let calls = calls.filter(|(environment, _)| names(environment, "CNI_COMMAND"));
    calls.filter(|(_, folder)| host_of(folder) == host).map(|(environment, _)| environment).collect()
}

fn is_about(environment: &[u8], at: &Attachment) -> bool {
    has(environment, "CNI_CONTAINERID", at.container.as_str()) && has(environment, "CNI_IFNAME", at.ifname.as_str())
}

/// The network namespace of a process, as the kernel names it.
fn host_of(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}

/// Whether an environment, as the kernel tells it, has a variable of this name.
fn names(environment: &[u8], name: &str) -> bool {
    let start = format!("{name}=");
    environment.split(|byte| *byte == 0).any(|one| one.starts_with(start.as_bytes()))
}

/// Whether an environment, as the kernel tells it, has this variable with this value.
fn has(environment: &[u8], name: &str, value: &str) -> bool {
    let pair = format!("{name}={value}");
    environment.split(|byte| *byte == 0).any(|one| one == pair.as_bytes())
}

#[cfg(test)]
mod tests {
    use cni_core::names::{ContainerId, IfName, NetworkName};

    use super::*;

    fn at(container: &str) -> Attachment {
        Attachment {
            network: NetworkName::parse("n1").expect("a network"),
            container: ContainerId::parse(container).expect("a container"),
            ifname: IfName::parse("eth0").expect("an interface"),
        }
    }

    #[test]
    fn the_environments_of_processes_say_whose_del_is_under_way() {
        let processes = tempfile::tempdir().expect("directory");
        let environments = [
            ("1", "PATH=/bin\0"),
            ("2", "PATH=/bin\0CNI_COMMAND=DEL\0CNI_CONTAINERID=c1\0CNI_IFNAME=eth0\0"),
            ("3", "CNI_COMMAND=ADD\0CNI_CONTAINERID=c2\0CNI_IFNAME=eth0\0"),
            ("4", "CNI_COMMAND=DEL\0CNI_CONTAINERID=c3\0CNI_IFNAME=eth1\0"),
            ("elsewhere", "CNI_COMMAND=DEL\0CNI_CONTAINERID=c4\0CNI_IFNAME=eth0\0"),
            ("self", "CNI_COMMAND=ADD\0"),
        ];
        for (process, environment) in environments {
            let folder = processes.path().join(process);
            fs::create_dir_all(folder.join("ns")).expect("a process");
            fs::write(folder.join("environ"), environment).expect("an environment");
            let host = if process == "elsewhere" { "net:[2]" } else { "net:[1]" };
            std::os::unix::fs::symlink(host, folder.join("ns/net")).expect("a namespace");
        }
        fs::create_dir(processes.path().join("5")).expect("a process that has ended");
        let running = RunningDeletions::of(processes.path());
        assert!(running.contains(&at("c1")));
        for other in ["c", "c2", "c3", "c4"] {
            assert!(!running.contains(&at(other)), "{other}");
        }
        assert!(!RunningDeletions::of(Path::new("/nowhere")).contains(&at("c1")));
    }
}
