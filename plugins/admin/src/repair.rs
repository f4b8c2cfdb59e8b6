//! `cni-plugins repair`: puts back the rules of containers that somebody else has flushed.
//!
//! The runtime cannot do it: CNI has no verb for it, and ADD must not be called again. libcni's cache
//! (`cache.rs`) holds each attachment's configuration and result; each plugin finds out what is missing and plans
//! how to put it back. Attachments are repaired in the order in which they were made, so that shared chains look
//! as before.

use std::cell::Cell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use std::{fmt, io};

use clap::Args;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_files::{PrivateDirectory, RUN_DIRECTORY};
use cni_linux::host::LinuxHost;
use cni_linux::output::{complain, one_line, write};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host as _;
use cni_plugin::missing::MissingPart;
use cni_plugin::namespace::Life;

mod case;
mod together;

use crate::cache::Cached;
use crate::cache::reader::CacheReader;
use crate::calls::neutral_request;
use crate::command_line::Scope;
use crate::dry_run::DryRun;
use crate::life::{Judge, LIVES_ON, require_host, require_outside};
use crate::metrics::LastRepair;
use crate::output::{self, error_line, joined};
use crate::result_cache::{self, CacheFile, Caches};
use case::{Case, Missing, unreadable};
use together::repair_together;

/// How long libcni may take to write a file, which is incomplete meanwhile.
const WRITING: Duration = Duration::from_millis(50);

/// What to do with what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Apply,
    /// Say what it is.
    DryRun,
}

/// The options of `repair`.
#[derive(Args, Clone, Debug)]
pub struct RepairOptions {
    #[command(flatten)]
    scope: Scope,
    /// say what is missing, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Repairs what the command line asks for, and prints a line for each attachment.
pub fn run(options: &RepairOptions) -> Result<ExitCode, String> {
    require_host()?;
    let Caches { directories, read: caches, mut files, unknown, seen: _ } =
        Caches::observe(options.scope.cache_dir.as_deref());
    output::report("cni-plugins repair", &unknown);
    let mode = if options.dry_run { Mode::DryRun } else { Mode::Apply };
    let tools = Tools::new(mode);
    let (mut report, mut judge) = (Report { failures: unknown.len(), ..Report::default() }, None);
    let meant = meant(&mut files, options, &mut report);
    require_outside(meant.iter().map(|(cached, _)| cached))?;
    for start in (0..meant.len()).step_by(together::MOST) {
        let part = start..meant.len().min(start + together::MOST);
        for ((cached, _), outcome) in meant[part.clone()].iter().zip(repair(&meant, part, &tools)) {
            report.attachment(&cached.at, &judged(cached, outcome, &caches, &mut judge));
        }
    }
    if report.attachments == 0 && unknown.is_empty() {
        let network = options.scope.network.as_ref().map_or_else(String::new, |name| format!(" to network {name}"));
        let names = result_cache::names(if caches.is_empty() { &directories[..1] } else { &caches });
        report.line(&format!("no attachment{network} in {names}"));
    }
    result_cache::line(&caches).lines().for_each(|line| report.line(line));
    let has_looked = unknown.is_empty() || !caches.is_empty();
    // What reads the record can do without.
    if has_looked
        && !options.dry_run
        && options.scope.network.is_none()
        && let Err(error) = LastRepair::now(report.failures).write(&PrivateDirectory::new(RUN_DIRECTORY))
    {
        log::warn!("the time of this repair is not recorded: {}", Error::from(error).in_full());
    }
    report.end()
}

/// Decides about an attachment whose path leads to another namespace: its own namespace may still be alive.
fn judged(cached: &Cached, outcome: RepairOutcome, caches: &[PathBuf], judge: &mut Option<Judge>) -> RepairOutcome {
    let RepairOutcome::Gone(reason) = outcome else { return outcome };
    match judge.take().map_or_else(|| Judge::new(caches), Ok) {
        Ok(one) => match judge.insert(one).life(cached) {
            Life::Dead => RepairOutcome::Gone(reason),
            Life::Alive => RepairOutcome::Skipped(LIVES_ON.to_owned()),
            Life::Unknown(reason) => RepairOutcome::Skipped(reason),
        },
        Err(error) => error.into(),
    }
}

/// The attachments that the options select. Reports files that are not libcni's.
fn meant<'a>(files: &'a mut [CacheFile], options: &RepairOptions, report: &mut Report) -> Vec<(Cached, &'a CacheFile)> {
    let (mut meant, mut reader) = (Vec::new(), CacheReader::default());
    for file in files {
        let found = read(file, &mut reader).or_else(|_| {
            thread::sleep(WRITING);
            read(file, &mut reader)
        });
        match found {
            Ok(Some(cached)) if options.scope.has(&cached.at) => meant.push((within_reach(cached), &*file)),
            Ok(_) => {}
            Err(error) => {
                report.failures += 1;
                report.line(&format!("{}: ignored: {}", file.path.display(), error_line(&error)));
            }
        }
    }
    meant
}

/// A namespace that has lost its name is reached by way of a process that is in it.
fn within_reach(mut cached: Cached) -> Cached {
    if cached.netns.as_deref().is_none_or(|path| Path::new(path).exists()) {
        return cached;
    }
    let path = path_by_process(&cached).unwrap_or_else(|error| {
        complain(&format!("cni-plugins repair: {}: {}\n", cached.at.container, error_line(&error)));
        None
    });
    cached.reached = path;
    cached
}

fn path_by_process(cached: &Cached) -> Result<Option<String>, Error> {
    let mut host = LinuxHost::new(&neutral_request()?);
    match AttachmentRecord::read(&cached.at, host.records())? {
        Some(record) if record.life(&mut host) == Life::Alive => {
            host.namespaces().path_by_process(&record.namespace.identity)
        }
        Some(_) | None => Ok(None),
    }
}

/// What is printed on standard output. When nobody reads it any more, the work is done to its end all the same.
#[derive(Default)]
struct Report {
    attachments: usize,
    failures: usize,
    unwritten: Option<io::Error>,
}

impl Report {
    fn attachment(&mut self, at: &Attachment, outcome: &RepairOutcome) {
        self.attachments += 1;
        self.failures += usize::from(outcome.is_failure());
        let Attachment { network, container, ifname } = at;
        self.line(&format!("{network} {container} {ifname}: {outcome}"));
    }

    fn line(&mut self, text: &str) {
        if self.unwritten.is_none() {
            self.unwritten = write(&format!("{}\n", one_line(text))).err();
        }
    }

    fn end(self) -> Result<ExitCode, String> {
        match self.unwritten {
            Some(error) => Err(format!("failed to write to standard output: {error}")),
            None if self.failures > 0 => Ok(ExitCode::FAILURE),
            None => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Reads a file of the cache; `None` if it has disappeared.
///
/// # Errors
/// When it cannot be read, or is not one of libcni's.
pub fn read(file: &mut CacheFile, reader: &mut CacheReader) -> Result<Option<Cached>, Error> {
    match file.read() {
        Ok(content) => content.map(|content| reader.parse(&content)).transpose(),
        Err(error) => Err(unreadable(file, &error)),
    }
}

/// What serves for one attachment after the other.
pub struct Tools {
    mode: Mode,
    host: Cell<Option<LinuxHost>>,
}

impl Default for Tools {
    fn default() -> Self {
        Self::new(Mode::DryRun)
    }
}

impl Tools {
    fn new(mode: Mode) -> Self {
        Self { mode, host: Cell::default() }
    }

    fn open(&self, request: &Request) -> LinuxHost {
        let host = LinuxHost::new(request).with_kept_tables();
        match self.mode {
            Mode::Apply => host,
            Mode::DryRun => host.only_looking(),
        }
    }

    /// Works on some attachments; `request` serves for delegation only. A host on which something has failed is not used again.
    fn work(&self, request: &Request, work: impl FnOnce(&mut LinuxHost) -> Vec<RepairOutcome>) -> Vec<RepairOutcome> {
        let mut host = match self.host.take() {
            Some(mut host) => {
                host.begin_request(request);
                host
            }
            None => self.open(request),
        };
        let outcomes = work(&mut host);
        // Nothing of an attachment is kept.
        host.end_request();
        let has_failed = outcomes.iter().any(RepairOutcome::is_failure);
        self.host.set(Some(if has_failed { host.reopened(request) } else { host }));
        outcomes
    }
}

/// What is missing of an attachment. Nothing is changed.
pub fn examine(cached: &Cached, file: &CacheFile, tools: &Tools) -> RepairOutcome {
    let examined = Case::new(cached, file).map(|case| {
        let look = |host: &mut LinuxHost| vec![case.find(host).map_or_else(|outcome| outcome, Missing::reported)];
        tools.work(case.request(), look)
    });
    examined.map_or_else(|outcome| outcome, |mut outcomes| outcomes.pop().unwrap_or(RepairOutcome::Complete))
}

/// All rules that the plugins make for an attachment that lives, in the parts that [`examine`] compares. Nothing is changed.
///
/// # Errors
/// The outcome, where there is nothing to look at, and the first failure.
pub fn made(cached: &Cached, file: &CacheFile) -> Result<Vec<MissingPart>, RepairOutcome> {
    let case = Case::new(cached, file)?;
    let mut host = LinuxHost::new(case.request());
    case.enter(&mut host)?;
    let Missing { parts, mut failures, lacks_records: _ } = case.look(&mut DryRun::without_rules(&mut host));
    match failures.pop() {
        Some(error) => Err(error.into()),
        None => Ok(parts.into_iter().map(|(_, part)| part).collect()),
    }
}

/// The outcome for each of a part of some attachments, in their order.
fn repair(all: &[(Cached, &CacheFile)], part: Range<usize>, tools: &Tools) -> Vec<RepairOutcome> {
    match tools.mode {
        Mode::DryRun => all[part].iter().map(|(cached, file)| examine(cached, file, tools)).collect(),
        Mode::Apply => apply(all, part, tools),
    }
}

fn apply(all: &[(Cached, &CacheFile)], part: Range<usize>, tools: &Tools) -> Vec<RepairOutcome> {
    match neutral_request() {
        Ok(request) => tools.work(&request, |host| repair_together(all, part, host)),
        Err(error) if part.len() == 1 => vec![error.into()],
        // An error has no copy: it is made once for each attachment.
        Err(_) => part.flat_map(|one| apply(all, one..one + 1, tools)).collect(),
    }
}

/// Something that was missing, and the plugin that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPart {
    pub plugin: String,
    /// The first missing rule.
    pub missing: String,
}

/// The outcome for an attachment.
#[derive(Debug)]
pub enum RepairOutcome {
    /// Nothing is missing.
    Complete,
    /// Nothing is missing of what is known; these plugins are others'.
    Unknown(Vec<String>),
    /// These are missing.
    Missing(Vec<NamedPart>),
    /// These were missing and have been put back.
    Repaired(Vec<NamedPart>),
    /// The container's namespace is gone; this says what is there instead.
    Gone(String),
    /// The attachment cannot be repaired, for this reason.
    Skipped(String),
    /// The failures, and the outcome of the rest.
    Failed(Vec<Error>, Box<RepairOutcome>),
}

impl NamedPart {
    pub fn new(plugin: &str, part: &MissingPart) -> Self {
        Self { plugin: plugin.to_owned(), missing: part.missing.clone() }
    }
}

impl From<Error> for RepairOutcome {
    fn from(error: Error) -> Self {
        Self::Failed(vec![error], Box::new(Self::Complete))
    }
}

/// The failures, together with what succeeded, if anything.
fn with_failures(
    failures: Vec<Error>,
    named: Vec<NamedPart>,
    outcome: fn(Vec<NamedPart>) -> RepairOutcome,
) -> RepairOutcome {
    let rest = if named.is_empty() { RepairOutcome::Complete } else { outcome(named) };
    if failures.is_empty() { rest } else { RepairOutcome::Failed(failures, Box::new(rest)) }
}

impl RepairOutcome {
    /// The outcome for an attachment that lacks nothing that these plugins know.
    pub fn of_known(cached: &Cached) -> Self {
        let others: Vec<String> = cached.plugins_of_others().map(str::to_owned).collect();
        if others.is_empty() { Self::Complete } else { Self::Unknown(others) }
    }

    /// Whether anything failed.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(..))
    }
}

impl fmt::Display for RepairOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |named: &[NamedPart]| named.iter().map(NamedPart::to_string).collect::<Vec<_>>().join("; ");
        match self {
            Self::Complete => f.write_str("nothing missing"),
            Self::Unknown(others) => write!(f, "unknown: not one of these plugins: {}", others.join(", ")),
            Self::Missing(named) => write!(f, "missing: {}", list(named)),
            Self::Repaired(named) => write!(f, "repaired: {}", list(named)),
            Self::Gone(reason) | Self::Skipped(reason) => write!(f, "skipped: {}", joined(reason)),
            Self::Failed(errors, rest) => {
                let errors: Vec<String> = errors.iter().map(error_line).collect();
                write!(f, "failed: {}", errors.join("; "))?;
                if matches!(**rest, Self::Complete) { Ok(()) } else { write!(f, "; {rest}") }
            }
        }
    }
}

impl fmt::Display for NamedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.plugin, joined(&self.missing))
    }
}

#[cfg(test)]
mod tests {
    use cni_core::fail;

    use super::*;

    #[test]
    fn an_outcome_is_one_line() {
        let broken = || fail!(Program, "iptables-restore failed\nBad argument\n");
        let named = |plugin: &str| NamedPart { plugin: plugin.to_owned(), missing: "nft a\nb".to_owned() };
        for (outcome, line, failure) in [
            (RepairOutcome::Repaired(vec![named("a"), named("b")]), "repaired: a: nft a / b; b: nft a / b", false),
            (
                RepairOutcome::Failed(
                    vec![broken(), broken().with_note("n".to_owned())],
                    Box::new(RepairOutcome::Repaired(vec![named("a")])),
                ),
                "failed: iptables-restore failed / Bad argument; iptables-restore failed / Bad argument / : n; \
                 repaired: a: nft a / b",
                true,
            ),
        ] {
            assert_eq!((outcome.to_string().as_str(), outcome.is_failure()), (line, failure));
        }
    }
}
