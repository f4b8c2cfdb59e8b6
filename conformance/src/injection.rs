//! Makes each system call of a plugin fail in turn.
//!
//! `strace` makes only the n-th call of one kind fail, so the calls that undo changes succeed. It traces only the
//! plugin; a delegate is traced separately.

use std::fs;

use crate::{Invocation, Outcome};

/// The calls that can fail, each with an error that it really may have.
const FAULTS: [(&str, &str); 31] = [
    ("bind", "ENOMEM"),
    ("clone", "EAGAIN"),
    ("clone3", "EAGAIN"),
    ("fchmod", "EPERM"),
    ("fdatasync", "EIO"),
    ("flock", "ENOLCK"),
    ("fsync", "EIO"),
    ("ftruncate", "EIO"),
    ("getdents64", "EIO"),
    ("getsockopt", "ENOMEM"),
    ("ioctl", "EPERM"),
    ("link", "ENOSPC"),
    ("linkat", "ENOSPC"),
    ("mkdir", "ENOSPC"),
    ("mkdirat", "ENOSPC"),
    ("open", "EMFILE"),
    ("openat", "EMFILE"),
    ("pipe2", "EMFILE"),
    ("read", "EIO"),
    ("recvfrom", "ENOBUFS"),
    ("recvmsg", "ENOBUFS"),
    ("rename", "ENOSPC"),
    ("renameat2", "ENOSPC"),
    ("sendmsg", "ENOBUFS"),
    ("sendto", "ENOBUFS"),
    ("setns", "EPERM"),
    ("socket", "EMFILE"),
    ("unlink", "EIO"),
    ("unlinkat", "EIO"),
    ("vfork", "EAGAIN"),
    ("write", "ENOSPC"),
];

/// More calls than this are another kind of failure. DEL may look at each process of the machine.
const MOST: usize = 5000;

const TRACE: &str = "/run/conformance/injected";

/// One call of an undisturbed ADD.
#[derive(Debug, Clone)]
pub struct SystemCall {
    name: &'static str,
    error: &'static str,
    /// The how many-th call of this name it is.
    number: u32,
    /// As `strace` writes it.
    text: String,
}

impl SystemCall {
    /// Names it in a table.
    pub fn label(&self) -> String {
        format!("{} {}: {:.100}", self.name, self.number, self.text)
    }

    /// With which error it fails.
    pub const fn error(&self) -> &'static str {
        self.error
    }

    /// Runs an ADD in which it fails.
    #[track_caller]
    pub fn fail_in(&self, add: &Invocation) -> Injected {
        let Self { name, error, number, text: _ } = self;
        let (outcome, trace) = run_under_strace(add, &format!("inject={name}:error={error}:when={number}"));
        let line = trace.lines().find(|line| line.ends_with("(INJECTED)")).map(str::to_owned);
        Injected { outcome, line }
    }
}

impl SystemCall {
    /// Runs a plugin that is killed at it.
    #[track_caller]
    pub fn kill_in(&self, invocation: &Invocation) -> Outcome {
        let Self { name, error: _, number, text: _ } = self;
        run_under_strace(invocation, &format!("inject={name}:signal=KILL:when={number}")).0
    }
}

/// Returns the calls of an undisturbed ADD, without those of the loader of a dynamic program. Of several reads of one file, and of several
/// missing files, only the first and the last are returned.
///
/// # Panics If the ADD fails, or makes too many calls.
#[track_caller]
pub fn calls_of(add: &Invocation) -> Vec<SystemCall> {
    let names = FAULTS.map(|(name, _)| name).join(",");
    let (outcome, trace) = run_under_strace(add, &format!("trace={names}"));
    outcome.expect_success();
    let mut calls: Vec<SystemCall> = Vec::new();
    for (name, error) in FAULTS {
        let made = trace.lines().filter(|line| line.split_once('(').is_some_and(|(made, _)| made == name));
        // The kernel itself restarts some writes below /proc/sys while somebody else holds its lock.
        let numbered = (1..).zip(made.filter(|line| !line.contains("= ? ERESTART")));
        // How often a plugin has nothing to read yet is different in each run.
        for (number, line) in numbered.filter(|(_, line)| !line.contains("= -1 EAGAIN") && !is_of_loader(line)) {
            let alike = |call: &SystemCall| call.name == name && is_more_of_the_same(&call.text, line);
            if calls.iter().rev().take(2).filter(|call| alike(call)).count() == 2 {
                calls.pop();
            }
            calls.push(SystemCall { name, error, number, text: line.to_owned() });
        }
    }
    assert!(calls.len() < MOST, "too many calls: {}, the last {:#?}", calls.len(), &calls[calls.len() - 20..]);
    calls
}

/// Whether a call is about a shared library: a file `.so`, or `.so.6`. A socket of this name ends with `.sock`.
fn is_of_loader(line: &str) -> bool {
    [".so\"", ".so>", ".so."].iter().any(|end| line.contains(end)) || line.contains("/ld.so.cache")
}

fn is_more_of_the_same(before: &str, after: &str) -> bool {
    let reads = before.starts_with("read(") && file_of(before) == file_of(after);
    let looks_for = |line: &str| line.contains("= -1 ENOENT");
    reads || (looks_for(before) && looks_for(after))
}

/// Returns the text in the first angle brackets: the file of a descriptor.
fn file_of(line: &str) -> Option<&str> {
    line.split_once('<')?.1.split_once('>').map(|(file, _)| file)
}

/// The outcome of an ADD with one failing call.
pub struct Injected {
    pub outcome: Outcome,
    /// The call, as `strace` writes it; none if the plugin did not come to it.
    pub line: Option<String>,
}

impl Injected {
    /// Requires that a plugin that failed did so by the call that failed, and said so; on standard output, unless that was
    /// what failed.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn expect_error(&self) {
        let line = self.line.as_ref().unwrap_or_else(|| panic!("failed by itself: {}", self.outcome));
        eprintln!("{line}");
        let text = self.outcome.to_string();
        assert!(!text.contains("device or resource busy"), "the next request on the socket failed as well: {text}");
        if line.starts_with("write(1<") {
            assert_eq!(self.outcome.code(), Some(1), "{}", self.outcome);
        } else {
            self.outcome.error();
        }
    }
}

#[track_caller]
fn run_under_strace(invocation: &Invocation, expression: &str) -> (Outcome, String) {
    let words = ["/usr/bin/strace", "-qq", "-y", "-o", TRACE, "-e", "signal=none", "-e", expression, "--"];
    let outcome = invocation.clone().launched_by(&words).run();
    let trace = fs::read_to_string(TRACE).unwrap_or_else(|error| panic!("read {TRACE} ({error}): {outcome}"));
    (outcome, trace)
}
