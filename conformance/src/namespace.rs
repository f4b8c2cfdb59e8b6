//! Network namespaces, and work inside them.
//!
//! A [`Namespace`] is a path. Work inside runs in its own thread, so the caller's thread never changes its namespace,
//! and nothing keeps a namespace alive between calls.

use std::fs::{self, File};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::child::{self, DEADLINE, Finished, Limit};

/// The folder of named namespaces.
const MOUNTS: &str = "/run/netns";

/// A network namespace, by its path.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: String,
    path: PathBuf,
    search: String,
}

impl Namespace {
    /// Names the namespace of the calling thread, for as long as the thread lives.
    pub(crate) fn of_this_thread(name: &str, search: &str) -> Self {
        let thread = nix::unistd::gettid();
        let path = PathBuf::from(format!("/proc/self/task/{thread}/ns/net"));
        Self { name: name.to_owned(), path, search: search.to_owned() }
    }

    /// Makes a new namespace, as bare as a runtime makes it: `lo` is down.
    pub(crate) fn create(name: &str, search: &str) -> Self {
        let path = Path::new(MOUNTS).join(name);
        File::create_new(&path).unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        thread::scope(|scope| {
            let made = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("unshare a network namespace");
                let source = "/proc/thread-self/ns/net";
                mount(Some(source), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                    .unwrap_or_else(|error| panic!("bind a namespace to {}: {error}", path.display()));
            });
            made.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        });
        Self { name: name.to_owned(), path, search: search.to_owned() }
    }

    /// Names the namespace behind any path, such as `/proc/PID/ns/net`.
    pub fn at(name: &str, path: &str, search: &str) -> Self {
        Self { name: name.to_owned(), path: PathBuf::from(path), search: search.to_owned() }
    }

    /// Returns the name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path, for `CNI_NETNS`.
    pub fn path(&self) -> &str {
        self.path.to_str().expect("namespace paths are text")
    }

    /// Runs `work` inside, on a thread of its own, and returns what it returns.
    ///
    /// # Panics
    /// When the namespace cannot be entered, and whenever `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter();
                work()
            });
            inside.join().unwrap_or_else(|cause| panic::resume_unwind(cause))
        })
    }

    /// Moves the calling thread in, for threads that never come back.
    pub(crate) fn enter(&self) {
        let file =
            File::open(&self.path).unwrap_or_else(|error| panic!("open namespace {}: {error}", self.path.display()));
        setns(&file, CloneFlags::CLONE_NEWNET)
            .unwrap_or_else(|error| panic!("enter namespace {}: {error}", self.path.display()));
    }

    /// Runs a program inside and returns its outcome, with any exit status.
    pub fn exec(&self, argv: &[&str]) -> Finished {
        let command = self.command(argv);
        self.run(|| child::run(command, b"", Limit::Fail(DEADLINE)))
    }

    fn command(&self, argv: &[&str]) -> Command {
        let [program, arguments @ ..] = argv else { panic!("no program given") };
        let mut command = Command::new(path_of(program, &self.search));
        command.args(arguments).env_clear().env("PATH", &self.search).env("LC_ALL", "C");
        command
    }

    /// Runs a program inside that must succeed and returns its standard output.
    ///
    /// # Panics
    /// When it does not succeed.
    #[track_caller]
    pub fn must(&self, argv: &[&str]) -> String {
        self.exec(argv).expect_success().stdout
    }

    /// Runs a command line of words without quotes that must succeed.
    ///
    /// # Panics
    /// When it does not succeed.
    #[track_caller]
    pub fn sh(&self, line: &str) -> String {
        self.must(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs the lines that `ip` would be called with, one after the other in one process; all must succeed.
    ///
    /// # Panics
    /// When one does not.
    #[track_caller]
    pub fn ip(&self, lines: &[&str]) {
        let command = self.command(&["ip", "-batch", "-"]);
        let input = lines.join("\n") + "\n";
        self.run(|| child::run(command, input.as_bytes(), Limit::Fail(DEADLINE))).expect_success();
    }

    /// Unmounts and unlinks the namespace; the kernel destroys it with its last user.
    ///
    /// # Panics
    /// When it is not mounted.
    pub fn remove(&self) {
        self.unmount();
        fs::remove_file(&self.path).unwrap_or_else(|error| panic!("remove {}: {error}", self.path.display()));
    }

    /// Unmounts the namespace and leaves the plain file behind.
    ///
    /// # Panics
    /// When it is not mounted.
    pub fn unmount(&self) {
        umount2(&self.path, MntFlags::MNT_DETACH)
            .unwrap_or_else(|error| panic!("unmount {}: {error}", self.path.display()));
    }
}

/// The path of a program. One that is started by its path needs no copy of this process (posix_spawn(3)).
fn path_of(program: &str, search: &str) -> PathBuf {
    let files = search.split(':').map(|folder| Path::new(folder).join(program));
    let is_named = program.contains('/');
    files.filter(|_| !is_named).find(|file| file.is_file()).unwrap_or_else(|| PathBuf::from(program))
}
