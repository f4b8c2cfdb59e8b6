//! `cni-plugins gc`: removes what belongs to no living namespace.
//!
//! Each container that is gone is deleted by the DEL of every plugin of its list, as its runtime ought to have done. DEL
//! concerns one container only, so nothing of those that live, or that come at the same moment, is touched. The
//! command GC of CNI would need the list of all that live, which may be longer when it arrives.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_linux::output::one_line;
use cni_model::plan::Plan;
use cni_plugin::attachment_record;
use cni_plugin::exclusion;
use cni_plugin::host::Host as _;
use cni_plugin::namespace::Life;
use cni_plugin::share::Share;
use serde_json::{Value, json};

use crate::cache::Cached;
use crate::calls::{Caller, PluginFolders};
use crate::inventory::{Attached, Inventory, Leftover, Source};
use crate::life::{Judge, require_host, require_outside};
use crate::output::{Progress, error_line, paths, print, report, status};
use crate::result_cache::{self, Scope};

/// How long several are locked before each is locked by itself. An ADD waits for ten seconds.
const PATIENCE_TOGETHER: Duration = Duration::from_secs(3);

/// So many are locked together: an ADD of the first of them may have to wait for the last.
const MOST: usize = 64;

/// The options of `gc`.
#[derive(Args, Debug)]
pub struct GcOptions {
    /// remove what was found
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    scope: Scope,
    /// where plugins of others are, beside the folder of this program
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    plugin_dir: Option<PathBuf>,
    /// print one JSON document, for programs
    #[arg(long)]
    json: bool,
}

/// Finds what is left over, and removes it when told to.
pub fn run(options: &GcOptions) -> Result<ExitCode, String> {
    require_host()?;
    let mut found = Inventory::observe(&options.scope);
    require_outside(found.attached.iter().map(|one| &one.cached))?;
    let (problems, caches) = (std::mem::take(&mut found.unknown), std::mem::take(&mut found.caches));
    let nothing = if problems.is_empty() { "nothing is left over\n" } else { "nothing is known to be left over\n" };
    let candidates = GcCandidate::all(found);
    let outcomes: Vec<RemovalOutcome> = if options.remove {
        let folders = PluginFolders::new(options.plugin_dir.as_deref())
            .map_err(|error| format!("failed to find the folder of plugins: {error}"))?;
        Remover::new(folders, &caches).map_err(|error| error_line(&error))?.remove_all(&candidates)
    } else {
        candidates.iter().map(RemovalOutcome::of_found).collect()
    };
    report("cni-plugins gc", &problems);
    let text = if options.json {
        json_text(&candidates, &outcomes, &caches)
    } else {
        let lines = lines(&candidates, &outcomes);
        (if candidates.is_empty() { nothing.to_owned() } else { lines }) + &result_cache::line(&caches)
    };
    let printed = print(&text);
    let has_failed = outcomes.iter().any(|outcome| matches!(outcome, RemovalOutcome::Failed(_)));
    let is_left = |outcome: &RemovalOutcome| {
        matches!(outcome, RemovalOutcome::Found | RemovalOutcome::Unclear(_) | RemovalOutcome::Busy(_))
    };
    Ok(status(printed, has_failed || !problems.is_empty(), outcomes.iter().any(is_left)))
}

fn lines(candidates: &[GcCandidate], outcomes: &[RemovalOutcome]) -> String {
    let line = |(one, outcome): (&GcCandidate, &RemovalOutcome)| {
        let Attachment { network, container, ifname } = &one.cached().at;
        let details = Some(one.details()).filter(|details| !details.is_empty());
        let details = details.map_or_else(String::new, |details| format!(" ({details})"));
        one_line(&format!("{network} {container} {ifname}: {}{details}", said(outcome))) + "\n"
    };
    candidates.iter().zip(outcomes).map(line).collect()
}

fn said(outcome: &RemovalOutcome) -> String {
    match named(outcome) {
        ("found", _) => "left over".to_owned(),
        (word, problems) if problems.is_empty() => word.to_owned(),
        (word, problems) => format!("{word}: {}", problems.join("; ")),
    }
}

/// The word for an outcome, and what is to be said of it.
fn named(outcome: &RemovalOutcome) -> (&'static str, Vec<String>) {
    match outcome {
        RemovalOutcome::Found => ("found", Vec::new()),
        RemovalOutcome::Removed => ("removed", Vec::new()),
        RemovalOutcome::Kept(why) | RemovalOutcome::Busy(why) => ("kept", vec![why.clone()]),
        RemovalOutcome::Unclear(why) => ("unclear", vec![why.clone()]),
        RemovalOutcome::Failed(failures) => ("failed", failures.clone()),
    }
}

fn json_text(candidates: &[GcCandidate], outcomes: &[RemovalOutcome], caches: &[PathBuf]) -> String {
    let entries: Vec<_> = candidates.iter().zip(outcomes).map(|(one, outcome)| entry(one, outcome)).collect();
    format!("{:#}\n", json!({ "leftOver": entries, "caches": paths(caches) }))
}

fn entry(one: &GcCandidate, outcome: &RemovalOutcome) -> Value {
    let (outcome, problems) = named(outcome);
    let Attachment { network, container, ifname } = &one.cached().at;
    json!({
        "network": network.as_str(), "container": container.as_str(), "ifname": ifname.as_str(),
        "addresses": one.addresses(), "reason": one.kind(), "outcome": outcome, "problems": problems,
    })
}

/// An attachment that is left over, or may be.
enum GcCandidate {
    /// An attachment of the cache.
    Known(Box<Attached>),
    /// An attachment that the cache does not have.
    Other(Box<Leftover>),
}

/// The outcome for a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RemovalOutcome {
    /// It is left over, and was not to be removed.
    Found,
    Removed,
    /// It was kept, for this reason.
    Kept(String),
    /// It was kept, since something works on it.
    Busy(String),
    /// It is unknown whether it lives, for this reason.
    Unclear(String),
    /// These parts of the removal failed.
    Failed(Vec<String>),
}

impl RemovalOutcome {
    /// The outcome without a removal.
    fn of_found(candidate: &GcCandidate) -> Self {
        match candidate.life() {
            Life::Unknown(why) => Self::Unclear(why.clone()),
            Life::Alive | Life::Dead => Self::Found,
        }
    }
}

impl GcCandidate {
    /// Every attachment that does not live.
    fn all(found: Inventory) -> Vec<Self> {
        let known = found.attached.into_iter().filter(|one| one.life != Life::Alive);
        let known = known.map(|one| Self::Known(Box::new(one)));
        known.chain(found.left.into_iter().map(|one| Self::Other(Box::new(one)))).collect()
    }

    /// The attachment, with the configuration of its plugins.
    const fn cached(&self) -> &Cached {
        match self {
            Self::Known(one) => &one.cached,
            Self::Other(one) => &one.cached,
        }
    }

    /// Whether it lives, as last judged.
    const fn life(&self) -> &Life {
        match self {
            Self::Known(one) => &one.life,
            Self::Other(one) => &one.life,
        }
    }

    /// Whether no plugin of others is called, which may take long.
    fn is_ours_alone(&self) -> bool {
        self.cached().plugins_of_others().next().is_none()
    }

    /// Whether its file is unchanged since it was found.
    fn is_current(&self) -> Result<bool, String> {
        match self {
            Self::Known(one) => {
                one.file.is_current().map_err(|error| format!("failed to read {}: {error}", one.file.path.display()))
            }
            Self::Other(one) => one.is_current().map_err(|error| error_line(&error)),
        }
    }

    /// What is known of it, for people.
    fn kind(&self) -> &'static str {
        match (self, self.life()) {
            (Self::Known(_), Life::Dead) => "its namespace is gone",
            (Self::Known(_), Life::Alive | Life::Unknown(_)) => "in the cache",
            (Self::Other(left), _) => match left.source {
                Source::Leases { .. } => "not in the cache, and its addresses are unused",
                Source::Records => "not in the cache, and its namespace is gone",
            },
        }
    }

    fn addresses(&self) -> Vec<String> {
        match self {
            Self::Known(one) => one.cached.addresses.iter().map(ToString::to_string).collect(),
            Self::Other(left) => left.addresses().iter().map(ToString::to_string).collect(),
        }
    }

    fn details(&self) -> String {
        let mut details = vec![self.kind().to_owned()];
        if matches!(self.life(), Life::Unknown(_)) {
            details.clear();
        }
        details.extend(Some(self.addresses().join(", ")).filter(|addresses| !addresses.is_empty()));
        details.join("; ")
    }
}

/// Removes candidates.
///
/// Between the search of the machine and the removal of the last candidate, a runtime may add an attachment of the same name. So
/// each candidate is judged again under its lock, for which ADD waits, and before each DEL, since an ADD that has waited too long
/// goes on without the lock.
///
/// For every change of a table the kernel checks all of it, so the rules of many candidates are removed at once, before the
/// DELs, which then find none.
struct Remover {
    caller: Caller,
    judge: Judge,
}

impl Remover {
    /// # Errors
    /// When the kernel cannot be talked to.
    fn new(folders: PluginFolders, caches: &[PathBuf]) -> Result<Self, Error> {
        Ok(Self { caller: Caller::new(folders)?, judge: Judge::new(caches)? })
    }

    /// Removes what is left of attachments, of those that are dead.
    fn remove_all(&mut self, candidates: &[GcCandidate]) -> Vec<RemovalOutcome> {
        let mut progress = Progress::new(candidates.len());
        let mut outcomes = Vec::with_capacity(candidates.len());
        let groups = candidates.chunk_by(|one, next| one.is_ours_alone() && next.is_ours_alone());
        for group in groups.flat_map(|group| group.chunks(MOST)) {
            let mut locked = Instant::now();
            self.remove_rules(group);
            for candidate in group {
                progress.show(outcomes.len());
                outcomes.push(self.remove(candidate));
                if locked.elapsed() > PATIENCE_TOGETHER {
                    self.caller.release();
                    locked = Instant::now();
                }
            }
            self.caller.release();
        }
        outcomes
    }

    /// Removes the rules of iptables of several attachments at once. Their locks are held from now on, first those of the
    /// attachments, then those of their addresses and ports, as in every plugin. What fails here is left to the DEL of each.
    fn remove_rules(&mut self, group: &[GcCandidate]) {
        if group.len() < 2 || self.caller.host().and_then(|host| exclusion::begin_several(host)).is_err() {
            return;
        }
        let mut locked: Vec<&GcCandidate> = group.iter().filter(|candidate| *candidate.life() == Life::Dead).collect();
        locked.retain(|candidate| {
            self.caller.host().and_then(|host| exclusion::begin_attachment(&candidate.cached().at, host)).is_ok()
        });
        let mut steps = Vec::new();
        for candidate in locked {
            let cached = candidate.cached();
            if self.changed(candidate).is_none() {
                let plugins = cached.plugins.iter().rev();
                steps.extend(plugins.filter_map(|config| self.caller.rehearse(cached, config).ok()).flatten());
            }
        }
        for step in Plan::join_removals(steps) {
            if let Err(error) = self.caller.host().and_then(|host| host.apply(&step)) {
                log::debug!("the rules of each attachment are removed by its DEL: {}", error.in_full());
            }
        }
    }

    /// Removes what is left of an attachment, if it is dead.
    fn remove(&mut self, candidate: &GcCandidate) -> RemovalOutcome {
        if let Life::Unknown(why) = candidate.life() {
            return RemovalOutcome::Unclear(why.clone());
        }
        let at = &candidate.cached().at;
        match self.caller.host().and_then(|host| exclusion::begin_attachment(at, host)) {
            Ok(()) => self.remove_locked(candidate),
            Err(error) => RemovalOutcome::Busy(format!("something works on it: {}", error_line(&error))),
        }
    }

    /// The lock of the attachment is held. A plugin that fails does not keep the others. The runtime would try a DEL
    /// that has failed again, so the attachment stays known then.
    fn remove_locked(&mut self, candidate: &GcCandidate) -> RemovalOutcome {
        if let Some(outcome) = self.changed(candidate) {
            return outcome;
        }
        let (cached, mut failures) = (candidate.cached(), Vec::new());
        let record = self.judge.record(&cached.at);
        for (index, config) in cached.plugins.iter().rev().enumerate() {
            if index > 0
                && let Some(outcome) = self.lives_again(candidate)
            {
                return outcome;
            }
            let deleted = self.caller.delete(cached, config);
            failures.extend(deleted.err().map(|problem| format!("{}: {problem}", config.kind)));
        }
        let may_stay = if let GcCandidate::Other(left) = candidate { left.may_stay } else { None };
        if failures.is_empty() && may_stay.is_none() {
            return self.forget(candidate);
        }
        // The DEL of the interface has removed the record, by which the next call judges. An ADD may have written another.
        if let Some(record) = record.filter(|_| self.judge.life_by_record(&cached.at).is_none())
            && let Err(error) = self.caller.host().and_then(|host| host.apply(&record.write()))
        {
            failures.push(error_line(&error));
        }
        match may_stay.filter(|_| failures.is_empty()) {
            Some(may_stay) => RemovalOutcome::Unclear(may_stay.to_owned()),
            None => RemovalOutcome::Failed(failures),
        }
    }

    /// Removes the file of the cache that was judged, and the record of the attachment, which plugins of others leave.
    fn forget(&mut self, candidate: &GcCandidate) -> RemovalOutcome {
        if let Some(outcome) = self.lives_again(candidate) {
            return outcome;
        }
        if let GcCandidate::Known(one) = candidate
            && let Err(error) = cni_files::remove(&one.file.path)
        {
            return RemovalOutcome::Failed(vec![Error::from(error).in_full()]);
        }
        let at = &candidate.cached().at;
        let forgotten =
            self.caller.host().and_then(|host| attachment_record::end_del("gc", Share::Interface, at, host));
        forgotten.map_or_else(|error| RemovalOutcome::Failed(vec![error_line(&error)]), |_| RemovalOutcome::Removed)
    }

    /// The outcome for a candidate that has changed since it was found.
    fn changed(&mut self, candidate: &GcCandidate) -> Option<RemovalOutcome> {
        let cached = candidate.cached();
        match (candidate.is_current(), candidate) {
            (Ok(true), GcCandidate::Known(_)) => outcome_of(self.judge.at_once(cached)),
            (Ok(true), GcCandidate::Other(left)) => outcome_of(left.life_by_records(&mut self.judge)),
            (Ok(false), _) => Some(added_again()),
            (Err(problem), _) => Some(RemovalOutcome::Failed(vec![problem])),
        }
    }

    /// The outcome for a candidate whose attachment was added again since the removal began, or is being added by one of these plugins,
    /// which goes on without the lock after it has waited for too long. The record shows both, until the DEL of the plugin that made the
    /// interface removes it; after that only the cache does.
    fn lives_again(&mut self, candidate: &GcCandidate) -> Option<RemovalOutcome> {
        let is_current = match candidate {
            GcCandidate::Known(_) => candidate.is_current(),
            // Its leases go with the DELs.
            GcCandidate::Other(_) => Ok(true),
        };
        match is_current {
            Ok(true) => outcome_of(self.judge.life_by_record(&candidate.cached().at)),
            Ok(false) => Some(added_again()),
            Err(problem) => Some(RemovalOutcome::Failed(vec![problem])),
        }
    }
}

/// What becomes of something that was dead; `None` when it still seems to be.
fn outcome_of(life: Option<Life>) -> Option<RemovalOutcome> {
    match life? {
        Life::Dead => None,
        Life::Alive => Some(RemovalOutcome::Kept("it lives again".to_owned())),
        Life::Unknown(why) => Some(RemovalOutcome::Unclear(why)),
    }
}

fn added_again() -> RemovalOutcome {
    RemovalOutcome::Kept("the runtime has deleted it, or added it again".to_owned())
}
