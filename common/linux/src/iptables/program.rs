//! The programs of iptables: finds and calls them, and interprets their failures.

use std::env;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use cni_core::error::Code;
use cni_files::{LockHolders, find_program, holders};
use cni_netfilter::{NetfilterError, NetfilterErrorKind, advised};

use crate::process::{self, Output, ProcessError};
use cni_kernel::netns::NetnsScope;

/// How much longer than its lock a program may take: it may have thousands of rules to read.
const GRACE: Duration = Duration::from_secs(20);

/// The exit status for a lock that is held, among other things: `RESOURCE_PROBLEM` of xtables.h.
const RESOURCE_PROBLEM: i32 = 4;

/// A program's end.
pub(super) struct ProgramEnd {
    /// The program with its arguments.
    pub(super) command: String,
    /// The exit status.
    pub(super) status: ExitStatus,
    /// The standard output.
    pub(super) stdout: String,
    /// The standard error.
    pub(super) stderr: String,
}

/// Looks for a program in the directories of `path`, those with a relative name left out, and runs it with patience for its
/// lock. A lock that stays taken is an error here, any other end is for the caller to judge.
pub(super) fn run(
    name: &str,
    path: &OsStr,
    arguments: &[&str],
    input: &str,
    patience: Duration,
    scope: &NetnsScope,
) -> Result<ProgramEnd, NetfilterError> {
    let Some(program) = find_program(name, path) else {
        let text = format!("failed to locate {name}: no such program in the directories of PATH");
        let details = format_args!("PATH={}", path.display());
        return Err(NetfilterError::new(NetfilterErrorKind::NoProgram, Code::Program, text, details));
    };
    let seconds = patience.as_secs().max(1).to_string();
    let arguments = [&["-w", &seconds], arguments].concat();
    let command = format!("{} {}", program.display(), arguments.join(" "));
    let unanswered = |code, text, details: &dyn Display| {
        Err(NetfilterError::new(NetfilterErrorKind::Unanswered, code, text, details))
    };
    let limit = patience.saturating_add(GRACE);
    match scope.run(|| process::run_bound(&program, &arguments, input.as_bytes(), limit)) {
        Ok(Ok(output)) => ended(command, output, patience),
        Ok(Err(error @ ProcessError::Deadline { .. })) => unanswered(Code::TryAgain, error.to_string(), &""),
        Ok(Err(error)) => unanswered(Code::Program, format!("failed to run {command}"), &error),
        Err(error) => unanswered(Code::Program, format!("failed to run {command}"), &error),
    }
}

impl ProgramEnd {
    /// The failure of the program where no rule is at fault.
    pub(super) fn failure(self) -> NetfilterError {
        let Self { command, status, stdout: _, stderr } = self;
        NetfilterError::program(NetfilterErrorKind::Failed, &command, &status.to_string(), &advised(&stderr))
    }
}

fn ended(command: String, output: Output, waited: Duration) -> Result<ProgramEnd, NetfilterError> {
    let Output { status, stdout, stderr } = output;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let ended = ProgramEnd { command, status, stdout: text(stdout), stderr: text(stderr) };
    if status.code() == Some(RESOURCE_PROBLEM) && ended.stderr.contains("holding the xtables lock") {
        let lock = env::var_os("XTABLES_LOCKFILE").map_or_else(|| PathBuf::from("/run/xtables.lock"), PathBuf::from);
        let holder = lock.metadata().map_or_else(|_| LockHolders::default(), |file| holders(&file));
        return Err(NetfilterError::locked(lock.display(), holder, waited));
    }
    Ok(ended)
}
