//! Applies each batch by one process of `iptables-restore --noflush`, and reads chains by `iptables -S`.
//!
//! Both flavours of iptables, nf_tables and legacy, behave alike here. A message counts as "does not exist" only if it
//! cannot mean anything else.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use std::{env, fs};

use cni_core::error::Code;
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_files::{FileError, Lock, LockError, LockHolders, find_program, holders};
use cni_kernel::netns::NetnsScope;
use cni_netfilter::iptables::{
    Batch, BatchLine, ChainRules, Iptables, IptablesRule, IptablesTable, SharedChainsLock, Target,
};
use cni_netfilter::{NetfilterError, NetfilterErrorKind, advised};

use crate::locks::take_in_netns;
use crate::process::{self, Output, ProcessError};

/// The time limit for a lock, our own and that of legacy iptables.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time limit after one lock has timed out: otherwise each family would wait ten seconds.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// The packet filter of the network namespace of the calling thread, by the programs of iptables.
#[derive(Clone, Debug)]
pub struct RestoreIptables {
    path: OsString,
    patience: Duration,
    /// The namespace in which the programs run.
    pub(super) scope: NetnsScope,
}

/// The words of programs for a table that the kernel does not have: those of `iptc_strerror` (libiptc) with the errors of the system in
/// it, and of `nft_init`, `mnl_genid_get` and `mnl_nft_table_batch` of the nf_tables flavour.
const NO_TABLE: [&str; 7] = [
    "Table does not exist",
    "who? (do you need to insmod?)",
    "Address family not supported",
    "Protocol not supported",
    "Protocol not available",
    "rule set generation id: Invalid argument",
    "TABLE_ADD failed (Operation not supported)",
];

/// The exit status of a legacy program that cannot open a table: `VERSION_PROBLEM` of xtables.h.
const VERSION_PROBLEM: i32 = 3;

/// The tables of iptables in the kernel itself, which the legacy programs use: it lists those in use in each network namespace
/// (`net/netfilter/x_tables.c`).
pub(super) fn legacy_tables(family: Family, scope: &NetnsScope) -> io::Result<String> {
    let names = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    scope.run(|| fs::read_to_string(names)).and_then(|read| read)
}

impl RestoreIptables {
    /// Works with the programs that `PATH` leads to.
    pub fn new() -> Self {
        Self { path: env::var_os("PATH").unwrap_or_default(), patience: PATIENCE, scope: NetnsScope::Current }
    }

    /// Works with the programs that another list of directories leads to.
    #[must_use]
    pub fn with_path(self, path: OsString) -> Self {
        Self { path, ..self }
    }

    /// Waits for locks no longer than this; iptables counts in seconds.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Runs the programs in another namespace than that of the calling thread.
    #[must_use]
    pub fn within(self, scope: NetnsScope) -> Self {
        Self { scope, ..self }
    }

    /// The program that changes rules of a family.
    pub(super) fn find(&self, family: Family) -> Option<PathBuf> {
        find_program(&format!("{}-restore", family.iptables()), &self.path)
    }

    fn restore(&mut self, batch: &Batch) -> Result<ProgramEnd, NetfilterError> {
        let text = batch.text()?;
        self.run(&format!("{}-restore", batch.family.iptables()), &["--noflush"], &text)
    }

    fn run(&mut self, program: &str, arguments: &[&str], input: &str) -> Result<ProgramEnd, NetfilterError> {
        let ended = run(program, &self.path, arguments, input, self.patience, &self.scope);
        if ended.as_ref().is_err_and(|error| error.kind == NetfilterErrorKind::Locked) {
            self.patience = self.patience.min(IMPATIENCE);
        }
        ended
    }

    /// Reads a chain; returns the end of the program where that fails for an unknown reason.
    fn look(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
    ) -> Result<Result<ChainRules, ProgramEnd>, NetfilterError> {
        let arguments = ["-t", table.as_str(), "-S", chain.as_str()];
        let ended = self.run(family.iptables(), &arguments, "")?;
        match ended.status.code() {
            Some(0) => Ok(Ok(Some(ended.stdout.lines().filter_map(IptablesRule::parse).collect()))),
            Some(1) if ended.stderr.contains("No chain/target/match by that name") => Ok(Ok(None)),
            Some(status) if self.is_without_table(family, table, status, &ended.stderr) => {
                Err(NetfilterError::no_table(family, table, &ended.command, &ended.stderr))
            }
            Some(1) if self.is_absent(family, table, chain)? => Ok(Ok(None)),
            Some(_) | None => Ok(Err(ended)),
        }
    }

    /// Whether a program has failed because the kernel does not have the table. Where it names another reason, such as missing
    /// rights, the kernel itself shows whether it has tables at all, and which: the module of another may not be loaded.
    fn is_without_table(&self, family: Family, table: IptablesTable, status: i32, text: &str) -> bool {
        let is_missing = || match legacy_tables(family, &self.scope) {
            Ok(tables) => text.contains("Permission denied") && !tables.lines().any(|name| name == table.as_str()),
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        NO_TABLE.iter().any(|words| text.contains(words)) || (status == VERSION_PROBLEM && is_missing())
    }

    /// Whether a chain that `iptables -S` calls "incompatible" does not exist at all: iptables-nft 1.8.9 uses the same
    /// words for both. The batch is always refused, at the second line if the chain exists and at the third if not, so
    /// it changes nothing.
    fn is_absent(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Result<bool, NetfilterError> {
        let never = IptablesRule::new(chain.clone(), Vec::new(), Target::Return);
        let ops = vec![BatchLine::CreateChain(chain.clone()), BatchLine::Require(never)];
        let ended = self.restore(&Batch { family, table, ops })?;
        Ok(ended.stderr.contains("line 3 failed"))
    }
}

impl Default for RestoreIptables {
    fn default() -> Self {
        Self::new()
    }
}

impl Iptables for RestoreIptables {
    fn list(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainRules, NetfilterError> {
        match self.look(family, table, chain)? {
            Ok(rules) => Ok(rules),
            // Somebody may have made the chain just after we looked.
            Err(_) => self.look(family, table, chain)?.map_err(ProgramEnd::failure),
        }
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), NetfilterError> {
        let ended = self.restore(batch)?;
        match ended.status.code() {
            Some(0) => Ok(()),
            Some(_) => Err(NetfilterError::refused(batch.family, batch.table, &ended.command, &ended.stderr)),
            None => Err(ended.failure()),
        }
    }

    fn absence(&mut self, family: Family, table: IptablesTable) -> Option<NetfilterError> {
        self.list(family, table, &ChainName::fixed("OUTPUT")).err().filter(NetfilterError::is_absence)
    }

    /// There is a lock for each network namespace. Only these plugins use it, and hold it for a few milliseconds.
    fn lock(&mut self) -> Result<SharedChainsLock, NetfilterError> {
        // If the run directory cannot be written, there is no lock: then only the kernel and the programs ensure that rules
        // are changed one after the other.
        let lock = take_in_netns("filter", &self.scope, self.patience).map_err(|error| match error {
            LockError::File(FileError { path, source, .. }) => {
                let text = format!("failed to lock {}", path.display());
                NetfilterError::new(NetfilterErrorKind::Other, Code::Io, text, source)
            }
            LockError::Held { path, waited, holders } => NetfilterError::locked(path.display(), holders, waited),
        })?;
        let has_waited = lock.as_ref().is_some_and(Lock::has_waited);
        Ok(SharedChainsLock { has_waited, held: Box::new(lock) })
    }
}

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
