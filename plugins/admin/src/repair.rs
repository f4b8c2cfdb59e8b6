//! `cni-plugins repair`: puts back the rules of containers that somebody else has flushed.
//!
//! The runtime cannot do it: CNI has no verb for it, and ADD must not be called again. libcni's cache
//! (`cache.rs`) holds each attachment's configuration and result; each plugin finds out what is missing and plans
//! how to put it back. Attachments are repaired in the order in which they were made, so that shared chains look
//! as before.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_files::{Draft, FileError, PrivateDirectory, RUN_DIRECTORY};
use cni_linux::host::LinuxHost;
use cni_linux::output::{complain, one_line, write};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host as _;
use cni_plugin::missing::MissingPart;
use cni_plugin::namespace::Life;

mod case;
mod outcome;
mod together;

use crate::cache::Cached;
use crate::cache::reader::CacheReader;
use crate::calls::neutral_request;
use crate::dry_run::DryRun;
use crate::life::{Judge, LIVES_ON, require_host, require_outside};
use crate::output::{self, error_line};
use crate::result_cache::{self, CacheFile, Caches, Scope};
use case::{Case, Missing, unreadable};
pub use outcome::{NamedPart, RepairOutcome};
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
    match AttachmentRecord::read(&cached.at, host.ledger())? {
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

/// When `repair` ran last over all networks. It leaves a small file beside the records of this boot, so that a host that has just started
/// has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRepair {
    /// When it ended, as time since 1970, in whole seconds.
    pub ended: Duration,
    /// How many attachments could not be repaired.
    pub failures: usize,
}

impl LastRepair {
    const FILE: &str = "repaired";

    /// A run that ends now.
    pub fn now(failures: usize) -> Self {
        let ended = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { ended: Duration::from_secs(ended.as_secs()), failures }
    }

    /// Records the run, in place of earlier ones.
    ///
    /// # Errors
    /// Then the record is as it was.
    pub fn write(self, directory: &PrivateDirectory) -> Result<(), FileError> {
        let Self { ended, failures } = self;
        directory.ensure()?;
        Draft::remove_dead(directory.path())?;
        directory.replace_file(Self::FILE, format!("{} {failures}\n", ended.as_secs()).as_bytes())
    }

    /// Reads what the last run has left. Treats a torn file as missing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(directory: &PrivateDirectory) -> Result<Option<Self>, FileError> {
        let content = directory.read_file(Self::FILE)?;
        Ok(content.and_then(|content| Self::parse(&String::from_utf8_lossy(&content))))
    }

    fn parse(text: &str) -> Option<Self> {
        let (seconds, failures) = text.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { ended: Duration::from_secs(seconds.parse().ok()?), failures: failures.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_run_replaces_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = PrivateDirectory::new(folder.path().join("own"));
        assert_eq!(LastRepair::read(&directory).expect("no failure"), None);
        for failures in [0, 17] {
            let run = LastRepair { ended: Duration::from_secs(1_700_000_000), failures };
            run.write(&directory).expect("written");
            assert_eq!(LastRepair::read(&directory).expect("no failure"), Some(run));
        }
        assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 1, "no draft is left");
    }

    #[test]
    fn a_torn_file_is_missing() {
        for torn in ["", "\n", "1700000000", "1700000000 0", "x 0\n", "1700000000 -1\n", "17 0 0\n"] {
            assert_eq!(LastRepair::parse(torn), None, "{torn:?}");
        }
    }
}
