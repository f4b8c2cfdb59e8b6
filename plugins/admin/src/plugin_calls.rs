//! The plugins that run at this moment, ours and others: the environment of each process names the command and the
//! attachment.
//!
//! Ours exclude each other by locks. Other plugins are visible only while one of them runs: between two plugins of a list,
//! no process exists. Anybody can start a process with such an environment, so only
//! processes of root count that run the file of a plugin. A program with the set-user-ID bit does not count: `sudo` is a
//! process of root while it asks a user for the password, with words of the user's choice.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cni_core::names::Attachment;

const PROCESSES: &str = "/proc";

/// The calls of plugins that are under way on this host.
#[derive(Debug, Default)]
pub struct RunningCalls(Vec<Call>);

/// A process that has the environment of a plugin.
#[derive(Debug)]
struct Call {
    /// The number of the process.
    pid: String,
    /// The file names of its program, and of the script that this runs.
    programs: Vec<String>,
    environment: Vec<u8>,
}

impl RunningCalls {
    /// Looks at all processes in the network namespace of this one. One whose environment cannot be read has ended, or is
    /// not root's.
    pub fn observe() -> Self {
        Self::of(Path::new(PROCESSES))
    }

    fn of(processes: &Path) -> Self {
        let host = host_of(&processes.join("self"));
        let folders = fs::read_dir(processes).into_iter().flatten().flatten().map(|entry| entry.path());
        let folders =
            folders.filter(|folder| is_number(folder) && fs::metadata(folder).is_ok_and(|one| one.uid() == 0));
        let calls = folders.filter_map(|folder| {
            let environment = fs::read(folder.join("environ")).ok()?;
            let counts = names(&environment, "CNI_COMMAND") && host_of(&folder) == host && is_roots(&folder);
            let pid = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            counts.then(|| Call { pid, programs: programs(&folder), environment })
        });
        Self(calls.collect())
    }

    /// Looks for a plugin that works on an interface of this name of the container. Returns how the process is called in
    /// messages: anybody who may start processes of root can make one that seems to be a plugin.
    pub fn find(&self, at: &Attachment, is_plugin: impl Fn(&str) -> bool) -> Option<String> {
        self.0.iter().filter(|call| call.is_about(at)).find_map(|call| call.name(&is_plugin))
    }

    /// The same for a plugin that deletes such an interface.
    pub fn find_deletion(&self, at: &Attachment, is_plugin: impl Fn(&str) -> bool) -> Option<String> {
        let deletes = |call: &&Call| has(&call.environment, "CNI_COMMAND", "DEL");
        self.0.iter().filter(deletes).filter(|call| call.is_about(at)).find_map(|call| call.name(&is_plugin))
    }

    /// Whether an ADD is under way, of whatever program.
    pub fn has_addition(&self) -> bool {
        self.0.iter().any(|call| has(&call.environment, "CNI_COMMAND", "ADD"))
    }
}

impl Call {
    fn is_about(&self, at: &Attachment) -> bool {
        has(&self.environment, "CNI_CONTAINERID", at.container.as_str())
            && has(&self.environment, "CNI_IFNAME", at.ifname.as_str())
    }

    /// Its name in messages, if it runs a plugin.
    fn name(&self, is_plugin: impl Fn(&str) -> bool) -> Option<String> {
        let plugin = self.programs.iter().find(|program| is_plugin(program))?;
        Some(format!("process {} ({plugin})", self.pid))
    }
}

/// Calls that are looked for when they are first asked for, and again when what was seen is old. So much time goes by
/// between two looks that looking takes a small part of it, however many processes there are.
#[derive(Debug, Default)]
pub struct WatchedCalls(Option<Look>);

/// What was seen at a time.
#[derive(Debug)]
struct Look {
    seen: RunningCalls,
    looked: Instant,
    rest: Duration,
}

/// How long a look is good for, at least.
const FRESH: Duration = Duration::from_millis(100);

/// How many times as long as it took.
const SHARE: u32 = 10;

impl Look {
    fn take() -> Self {
        let looked = Instant::now();
        let seen = RunningCalls::observe();
        Self { seen, rest: FRESH.max(looked.elapsed() * SHARE), looked }
    }

    fn is_old(&self) -> bool {
        self.looked.elapsed() > self.rest
    }
}

impl WatchedCalls {
    /// What was seen a short time ago, or is seen now.
    pub fn now(&mut self) -> &RunningCalls {
        let fresh = self.0.take().filter(|look| !look.is_old());
        &self.0.insert(fresh.unwrap_or_else(Look::take)).seen
    }
}

fn is_number(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_bytes().iter().all(u8::is_ascii_digit))
}

/// Whether root has started a process: all its user numbers are root's, and its program does not change them. One with the
/// set-user-ID bit keeps the environment and the arguments of the user who has started it.
fn is_roots(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let changes_user = |program: fs::Metadata| program.mode() & libc::S_ISUID != 0;
    users.is_some_and(|users| users.split_whitespace().eq(["0"; 4]))
        && !fs::metadata(process.join("exe")).is_ok_and(changes_user)
}

/// The file names of the program, of the name that it was started under, and of its first argument, which is the script
/// where the program is an interpreter.
fn programs(process: &Path) -> Vec<String> {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    let words = words.split(|byte| *byte == 0).take(2).map(|word| PathBuf::from(OsStr::from_bytes(word)));
    let paths = fs::read_link(process.join("exe")).into_iter().chain(words);
    let name = |path: PathBuf| Some(path.file_name()?.to_str()?.trim_end_matches(" (deleted)").to_owned());
    paths.filter_map(name).collect()
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
    use std::os::unix::fs::PermissionsExt as _;

    use cni_core::names::{ContainerId, IfName, NetworkName};

    use super::*;

    fn at(container: &str) -> Attachment {
        Attachment {
            network: NetworkName::parse("n1").expect("a network"),
            container: ContainerId::parse(container).expect("a container"),
            ifname: IfName::parse("eth0").expect("an interface"),
        }
    }

    /// A process as `/proc` shows it.
    struct Shown<'a> {
        environment: &'a str,
        host: &'a str,
        users: &'a str,
        exe: &'a str,
        cmdline: &'a str,
    }

    const BRIDGE: Shown<'_> = Shown {
        environment: "PATH=/bin\0CNI_COMMAND=DEL\0CNI_CONTAINERID=c1\0CNI_IFNAME=eth0\0",
        host: "net:[1]",
        users: "0\t0\t0\t0",
        exe: "/opt/cni/bin/bridge",
        cmdline: "",
    };

    fn seen(shown: &Shown<'_>) -> RunningCalls {
        let processes = tempfile::tempdir().expect("directory");
        for (process, shown) in [("self", &BRIDGE), ("17", shown)] {
            let folder = processes.path().join(process);
            fs::create_dir_all(folder.join("ns")).expect("a process");
            fs::write(folder.join("environ"), shown.environment).expect("an environment");
            fs::write(folder.join("cmdline"), shown.cmdline).expect("a command line");
            fs::write(folder.join("status"), format!("Name:\tx\nUid:\t{}\n", shown.users)).expect("a status");
            std::os::unix::fs::symlink(shown.host, folder.join("ns/net")).expect("a namespace");
            std::os::unix::fs::symlink(shown.exe, folder.join("exe")).expect("a program");
        }
        fs::create_dir(processes.path().join("5")).expect("a process that has ended");
        RunningCalls::of(processes.path())
    }

    fn contains(calls: &RunningCalls, at: &Attachment) -> bool {
        calls.find(at, |name| name == "bridge").is_some()
    }

    /// What only root can set up: the folders are root's.
    mod as_root {
        use super::*;

        #[test]
        fn the_environments_of_processes_say_whose_del_is_under_way() {
            let is_plugin = |name: &str| name == "bridge";
            let about = |environment| Shown { environment, ..BRIDGE };
            let named = Some("process 17 (bridge)".to_owned());
            assert_eq!(seen(&BRIDGE).find(&at("c1"), is_plugin), named);
            assert_eq!(seen(&BRIDGE).find_deletion(&at("c1"), is_plugin), named);
            assert!(!contains(&seen(&BRIDGE), &at("c")));
            let added = seen(&about("CNI_COMMAND=ADD\0CNI_CONTAINERID=c1\0CNI_IFNAME=eth0\0"));
            assert_eq!([added.find(&at("c1"), is_plugin), added.find_deletion(&at("c1"), is_plugin)], [named, None]);
            for other in ["PATH=/bin\0", "CNI_COMMAND=DEL\0CNI_CONTAINERID=c1\0CNI_IFNAME=eth1\0"] {
                assert!(!contains(&seen(&about(other)), &at("c1")), "{other}");
            }
            assert!(!contains(&seen(&Shown { host: "net:[2]", ..BRIDGE }), &at("c1")), "another host's");
            assert!(!contains(&RunningCalls::of(Path::new("/nowhere")), &at("c1")));
        }

        #[test]
        fn only_processes_of_root_that_run_a_plugins_file_count() {
            let counts = |shown: &Shown<'_>| contains(&seen(shown), &at("c1"));
            for (exe, cmdline) in [
                ("/opt/cni/bin/bridge (deleted)", ""),
                ("/usr/bin/dash", "/bin/sh\0/opt/cni/bin/bridge\0"),
                ("/opt/x", "bridge\0"),
            ] {
                assert!(counts(&Shown { exe, cmdline, ..BRIDGE }), "{exe} {cmdline}");
            }
            assert!(!counts(&Shown { exe: "/usr/bin/sleep", cmdline: "sleep\x0060\0bridge\0", ..BRIDGE }));
            for users in ["1000\t1000\t1000\t1000", "1000\t0\t0\t0", "0\t0\t1000\t0", ""] {
                assert!(!counts(&Shown { users, ..BRIDGE }), "{users}");
            }
            let program = tempfile::NamedTempFile::new().expect("a file");
            let asking = Shown { exe: program.path().to_str().expect("text"), cmdline: "sudo\0bridge\0", ..BRIDGE };
            for (mode, is_counted) in [(0o755, true), (0o4755, false)] {
                fs::set_permissions(program.path(), fs::Permissions::from_mode(mode)).expect("set the mode");
                assert_eq!(counts(&asking), is_counted, "{mode:o}");
            }
        }
    }
}
