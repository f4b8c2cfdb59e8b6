//! `cni-plugins repair`: puts back the rules of containers that somebody else has flushed.
//!
//! The runtime cannot do it: CNI has no verb for it, and ADD must not be called again. libcni's cache
//! (`cache.rs`) holds each attachment's configuration and result; each plugin finds out what is missing and plans
//! how to put it back. Attachments are repaired in the order in which they were made, so that shared chains look
//! as before.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_linux::host::LinuxHost;
use cni_linux::plugin_calls::WatchedDeletions;
use cni_linux::result_cache::{self, CacheFile};
use cni_plugin::exclusion;
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::Ns;
use cni_plugin::run::Plugin;

mod error;
mod options;
mod outcome;
mod second_look;

use crate::cache::Cached;
use crate::command_line::Words;
use crate::output::complain;
use crate::plugins::PLUGINS;
use error::RepairError;
use options::{Mode, Options};
pub use outcome::{NamedPart, RepairOutcome, told};
use second_look::PutBack;

/// Repairs what the command line asks for, and prints a line for each attachment.
pub fn run(words: &Words) -> ExitCode {
    let options = &Options::of(words);
    let directory = options.cache_dir.as_deref().unwrap_or(Path::new(result_cache::DIRECTORY));
    let results = result_cache::results(directory);
    let files = match result_cache::read(directory) {
        Ok(Some(files)) => files,
        Ok(None) if options.cache_dir.is_none() => Vec::new(),
        Ok(None) => return refused(&format!("{} does not exist", results.display())),
        Err(error) => return refused(&format!("failed to read {}: {error}", results.display())),
    };
    let (started, mut tools) = (Instant::now(), Tools::default());
    let (mut report, mut put_back) = (Report::default(), Vec::new());
    for file in &files {
        match read(file) {
            Ok(cached) if is_meant(&cached, options) => {
                let outcome = repair(&cached, file, options.mode, &mut tools);
                report.attachment(&cached.at, &outcome);
                let plugins = outcome.repaired();
                if !plugins.is_empty() {
                    put_back.push(PutBack { cached, file: file.path.clone(), plugins });
                }
            }
            Ok(_) => {}
            Err(error) => report.line(&format!("{}: ignored: {}", file.path.display(), told(&error))),
        }
    }
    if report.attachments == 0 {
        let network = options.network.as_ref().map_or_else(String::new, |name| format!(" to network {name}"));
        report.line(&format!("no attachment{network} in {}", results.display()));
    }
    second_look::look_again(put_back, started.elapsed(), |one, outcome| report.attachment(&one.cached.at, &outcome));
    report.end()
}

fn is_meant(cached: &Cached, options: &Options) -> bool {
    options.network.as_deref().is_none_or(|name| name == cached.at.network.as_str())
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
            self.unwritten = writeln!(io::stdout(), "{text}").err();
        }
    }

    fn end(self) -> ExitCode {
        match self.unwritten {
            Some(error) => refused(&format!("failed to write to standard output: {error}")),
            None if self.failures > 0 => ExitCode::FAILURE,
            None => ExitCode::SUCCESS,
        }
    }
}

fn refused(problem: &str) -> ExitCode {
    complain(&format!("cni-plugins repair: {problem}\n"));
    ExitCode::FAILURE
}

/// Reads a file of the cache.
///
/// # Errors
/// When it cannot be read, or is not one of libcni's.
pub fn read(file: &CacheFile) -> Result<Cached, Error> {
    match &file.content {
        Ok(content) => Ok(Cached::parse(content)?),
        Err(error) => Err(unreadable(file, error)),
    }
}

fn unreadable(file: &CacheFile, error: &io::Error) -> Error {
    let source = io::Error::new(error.kind(), error.to_string());
    RepairError::Cache { path: file.path.display().to_string(), source }.into()
}

/// What serves for one attachment after the other.
#[derive(Default)]
pub struct Tools {
    host: Option<LinuxHost>,
    deletions: RefCell<WatchedDeletions>,
}

impl Tools {
    fn take_host(&mut self, request: &Request) -> Result<LinuxHost, Error> {
        match self.host.take() {
            Some(mut host) => {
                host.begin_request(request);
                Ok(host)
            }
            None => LinuxHost::new(request),
        }
    }

    /// Nothing of an attachment is kept. A host on which something has failed is not used again.
    fn put_back(&mut self, mut host: LinuxHost, outcome: &Result<RepairOutcome, Error>) {
        host.end_request();
        let is_sound = outcome.as_ref().is_ok_and(|outcome| !outcome.is_failure());
        self.host = is_sound.then_some(host);
    }
}

/// What is missing of an attachment. Nothing is changed.
pub fn examine(cached: &Cached, file: &CacheFile, tools: &mut Tools) -> RepairOutcome {
    repair(cached, file, Mode::DryRun, tools)
}

fn repair(cached: &Cached, file: &CacheFile, mode: Mode, tools: &mut Tools) -> RepairOutcome {
    attempt(cached, file, mode, tools)
        .unwrap_or_else(|error| RepairOutcome::Failed(vec![error], Box::new(RepairOutcome::Complete)))
}

/// A plugin of the list that this binary contains, and its call.
struct Ours {
    plugin: &'static dyn Plugin,
    request: Request,
}

fn attempt(cached: &Cached, file: &CacheFile, mode: Mode, tools: &mut Tools) -> Result<RepairOutcome, Error> {
    let Some(netns) = cached.netns.as_deref() else {
        return Ok(RepairOutcome::Skipped("the cache does not name the container's namespace".to_owned()));
    };
    let mut ours = Vec::new();
    for config in &cached.plugins {
        if let Some(plugin) = PLUGINS.into_iter().find(|plugin| plugin.kind() == config.kind) {
            ours.push(Ours { plugin, request: cached.request(config, plugin)? });
        }
    }
    // A host uses the request for delegation only, and nothing is delegated here.
    let Some(Ours { request, .. }) = ours.first() else { return Ok(RepairOutcome::Complete) };
    let mut host = tools.take_host(request)?;
    let kept = Kept { at: &cached.at, file, netns, request, deletions: &tools.deletions };
    let outcome = attempt_on(&ours, &kept, mode, &mut host);
    tools.put_back(host, &outcome);
    outcome
}

fn attempt_on(ours: &[Ours], kept: &Kept<'_>, mode: Mode, host: &mut LinuxHost) -> Result<RepairOutcome, Error> {
    let Kept { at, netns, .. } = *kept;
    if host.is_own_netns(netns)? {
        return Ok(RepairOutcome::Skipped(format!("{netns} is the host's own namespace")));
    }
    match host.enter(netns) {
        Ok(()) => {}
        Err(NetnsError::Gone { reason, .. }) => {
            return Ok(RepairOutcome::Gone(format!("the container is gone: {netns}: {reason}")));
        }
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    }
    let (parts, failures) = look(ours, host);
    if parts.is_empty() && failures.is_empty() {
        return Ok(RepairOutcome::Complete);
    }
    // Who works on it has its lock, perhaps for long.
    if let Some(why) = kept.lost(host)? {
        return Ok(RepairOutcome::Skipped(why));
    }
    match mode {
        Mode::DryRun => Ok(with_failures(failures, names(&parts), RepairOutcome::Missing)),
        Mode::Apply => {
            exclusion::begin_repair(at, host)?;
            apply_locked(ours, kept, host)
        }
    }
}

type FoundPart = (&'static str, MissingPart);

/// What is missing, plugin by plugin. The failure of one does not stop the others.
fn look(ours: &[Ours], host: &mut dyn Host) -> (Vec<FoundPart>, Vec<Error>) {
    let (mut parts, mut failures) = (Vec::new(), Vec::new());
    for Ours { plugin, request } in ours {
        match plugin.find_missing(request, host) {
            Ok(found) => parts.extend(found.into_iter().map(|part| (plugin.kind(), part))),
            Err(error) => failures.push(error),
        }
    }
    (parts, failures)
}

/// What tells whether the attachment is still the one of which the cache tells.
struct Kept<'a> {
    at: &'a Attachment,
    file: &'a CacheFile,
    netns: &'a str,
    request: &'a Request,
    deletions: &'a RefCell<WatchedDeletions>,
}

impl Kept<'_> {
    /// Why the attachment must be left alone, if it must.
    fn lost(&self, host: &mut dyn Host) -> Result<Option<String>, Error> {
        if exclusion::is_being_deleted(self.at, self.file.written(), host)?
            || self.deletions.borrow_mut().contain(self.at)
        {
            return Ok(Some("the runtime is deleting the attachment".to_owned()));
        }
        if !self.file.is_current().map_err(|error| unreadable(self.file, &error))? {
            return Ok(Some(RepairError::Deleted.to_string()));
        }
        if !self.has_interface(host)? {
            let Self { at, netns, .. } = self;
            return Ok(Some(format!("{netns} does not have the container's {} any more", at.ifname)));
        }
        Ok(None)
    }

    /// A namespace may have been emptied, or its path may lead to another container's namespace now, because a process
    /// has got the number of one that ended. Then the address of the rules may belong to another container, too.
    fn has_interface(&self, host: &mut dyn Host) -> Result<bool, Error> {
        let Some(link) = host.link(Ns::Container, &self.at.ifname)? else { return Ok(false) };
        let found = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
        let result = self.request.prev_result()?.unwrap_or_default();
        let mut told = result.interfaces.iter().filter(|told| told.name == link.name && !told.sandbox.is_empty());
        if told.any(|told| told.mac.is_empty() || told.mac.eq_ignore_ascii_case(&found)) {
            return Ok(true);
        }
        let addresses = host.addresses(Ns::Container, Some(link.index), None)?;
        Ok(result.ips.iter().any(|ip| addresses.iter().any(|address| address.cidr == ip.address)))
    }
}

/// Repairs an attachment that nothing of ours works on meanwhile. What is missing is looked for again, since a DEL may
/// have come before the lock.
fn apply_locked(ours: &[Ours], kept: &Kept<'_>, host: &mut LinuxHost) -> Result<RepairOutcome, Error> {
    if let Some(why) = kept.lost(host)? {
        return Ok(RepairOutcome::Skipped(why));
    }
    let (parts, failures) = look(ours, host);
    Ok(apply(&parts, failures, kept, host))
}

/// A failure does not stop the rest. If the attachment is being deleted in the meantime, by plugins that do not know of
/// the lock, everything is undone.
fn apply(parts: &[FoundPart], mut failures: Vec<Error>, kept: &Kept<'_>, host: &mut dyn Host) -> RepairOutcome {
    let mut journal = Journal::new(host);
    let mut repaired = Vec::new();
    for (plugin, part) in parts {
        match journal.apply(&part.plan) {
            Ok(()) => repaired.push(named(plugin, part)),
            Err(error) => failures.push(error),
        }
    }
    match kept.lost(journal.host()) {
        Ok(None) => journal.commit(),
        Ok(Some(why)) => {
            let error = journal.rollback(RepairError::Deleted.into());
            let clean = failures.is_empty() && error.details().is_empty();
            failures.push(error);
            return if clean {
                RepairOutcome::Skipped(why)
            } else {
                RepairOutcome::Failed(failures, Box::new(RepairOutcome::Complete))
            };
        }
        Err(error) => {
            journal.commit();
            failures.push(error);
        }
    }
    with_failures(failures, repaired, RepairOutcome::Repaired)
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

fn names(parts: &[FoundPart]) -> Vec<NamedPart> {
    parts.iter().map(|(plugin, part)| named(plugin, part)).collect()
}

fn named(plugin: &str, part: &MissingPart) -> NamedPart {
    NamedPart { plugin: plugin.to_owned(), missing: part.missing.clone() }
}
