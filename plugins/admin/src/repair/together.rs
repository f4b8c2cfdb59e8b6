//! Several attachments in one change of each table.
//!
//! For every change of a table the kernel checks all of it, so to put back the rules of one container after the other takes a
//! time that grows with the square of their number. What belongs to one container alone is done for each by itself.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_linux::nftables::KeptTables;
use cni_model::plan::Plan;
use cni_netfilter::flows::StaleFlows;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;

use super::case::{Case, Missing, RuleDeletions};
use super::error::RepairError;
use super::outcome::{NamedPart, RepairOutcome, with_failures};
use crate::cache::Cached;
use crate::plugin_calls::WatchedCalls;
use crate::result_cache::CacheFile;
use crate::work_share::{TABLES, share_of};

/// So many attachments are repaired together: ADD, DEL and GC may have to wait for the last of them.
pub const MOST: usize = 512;

/// Once an attachment lacks something, this many of the next ones are locked and looked at together.
const AT_ONCE: usize = 128;

/// So many where each is repaired by itself, which takes some ten milliseconds beside a thousand others. They wait for ten seconds.
const FEW: usize = 64;

/// What the threads of a repair share.
#[derive(Clone, Copy)]
pub struct SharedTools<'a> {
    pub calls: &'a Mutex<WatchedCalls>,
    pub tables: &'a KeptTables,
}

/// Repairs attachments that nothing of ours works on meanwhile, and tells the outcome for each.
pub fn repair_together(
    attachments: &[(Cached, &CacheFile)],
    tools: SharedTools<'_>,
    host: &mut LinuxHost,
) -> Vec<RepairOutcome> {
    let found = find_all(attachments, tools, host);
    let joined = Joined::make(found.iter().flatten().map(|(_, missing)| missing), host);
    if joined == Joined::Refused && attachments.len() > FEW {
        let few = |few| {
            // Gives back the locks.
            host.end_request();
            repair_together(few, tools, host)
        };
        return attachments.chunks(FEW).flat_map(few).collect();
    }
    let mut flows = Vec::new();
    let finish = |found: Result<(Case<'_>, Missing), RepairOutcome>| {
        found.map_or_else(|outcome| outcome, |(case, missing)| finish(&case, missing, joined, &mut flows, host))
    };
    let tables = tools.tables;
    let outcomes = thread::scope(|scope| {
        // Others follow, which are looked at next.
        if joined == Joined::Made && attachments.len() == MOST {
            scope.spawn(|| tables.read_ahead(TABLES));
        }
        found.into_iter().map(finish).collect()
    });
    if !flows.is_empty() {
        host.forget_flows(&flows);
    }
    outcomes
}

/// An attachment with what is missing of it, or its outcome, if there is nothing to do.
type Found<'a> = Result<(Case<'a>, Missing), RepairOutcome>;

/// What is missing of each. Where something is missing of one, it is expected of those that follow. Of a complete attachment nothing is
/// kept, since nearly all are complete.
fn find_all<'a>(
    attachments: &'a [(Cached, &CacheFile)],
    tools: SharedTools<'a>,
    host: &mut LinuxHost,
) -> Vec<Found<'a>> {
    let mut found: Vec<Found<'a>> = Vec::with_capacity(attachments.len());
    while let Some((next, _)) = attachments[found.len()..].split_first() {
        let is_expected = found.last().is_some_and(Result::is_ok);
        if is_expected {
            let following = attachments[found.len()..].iter().take(AT_ONCE);
            found.extend(find_expected(following.map(|(cached, file)| (cached, *file)), tools, host));
        } else {
            let (cached, file) = next;
            found.push(Case::new(cached, file, tools.calls).and_then(|case| {
                let missing = case.find_locked(host)?;
                Ok((case, missing))
            }));
        }
    }
    found
}

/// Takes the locks of some attachments, then looks at them, with several threads.
fn find_expected<'a>(
    attachments: impl Iterator<Item = (&'a Cached, &'a CacheFile)>,
    tools: SharedTools<'a>,
    host: &mut LinuxHost,
) -> Vec<Found<'a>> {
    let locked = attachments.map(|(cached, file)| {
        let case = Case::new(cached, file, tools.calls)?;
        case.lock(host)?;
        Ok(case)
    });
    let mut locked: Vec<Result<Case<'a>, RepairOutcome>> = locked.collect();
    let rest = locked.split_off(share_of(locked.len()).min(locked.len()));
    let tables = tools.tables;
    thread::scope(|scope| {
        let mut rest = rest.into_iter().peekable();
        let mut threads = Vec::new();
        while rest.peek().is_some() {
            let part: Vec<_> = rest.by_ref().take(locked.len()).collect();
            threads.push(scope.spawn(move || find_by_thread(part, tables)));
        }
        let mut found: Vec<Found<'a>> = locked.into_iter().map(|case| find_one(case, host)).collect();
        for thread in threads {
            found.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        found
    })
}

/// The part of a thread: its host takes no locks, since the process has them, and has its own sockets.
fn find_by_thread<'a>(part: Vec<Result<Case<'a>, RepairOutcome>>, tables: &KeptTables) -> Vec<Found<'a>> {
    let mut host: Option<LinuxHost> = None;
    let find = |case: Result<Case<'a>, RepairOutcome>| {
        let case = case?;
        let host = host.get_or_insert_with(|| LinuxHost::new(case.request()).with_kept_tables(tables.clone()));
        find_one(Ok(case), host)
    };
    part.into_iter().map(find).collect()
}

fn find_one<'a>(case: Result<Case<'a>, RepairOutcome>, host: &mut LinuxHost) -> Found<'a> {
    let case = case?;
    let missing = case.find_under_lock(host)?;
    Ok((case, missing))
}

/// Whether the rules of all are there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    Made,
    /// Fewer than two attachments need any: they are made with the rest of the plan.
    Needless,
    /// So each attachment's are made with the rest of its plan.
    Refused,
}

impl Joined {
    /// Makes the rules of several attachments. Where that fails, everything is as it was.
    fn make<'a>(all: impl Iterator<Item = &'a Missing>, host: &mut LinuxHost) -> Self {
        let all: Vec<&Missing> = all.filter(|missing| !missing.parts.is_empty()).collect();
        if all.len() < 2 {
            return Self::Needless;
        }
        let parts = all.iter().flat_map(|missing| &missing.parts);
        let mut journal = Journal::new(host);
        match journal.apply(&Plan::join_rules(parts.map(|(_, part)| &part.plan))) {
            Ok(()) => {
                journal.commit();
                Self::Made
            }
            Err(error) => {
                let error = journal.rollback(error);
                log::debug!("each attachment is repaired by itself: {}", error.in_full());
                Self::Refused
            }
        }
    }

    /// Whether the rules of a part are made.
    fn has(self, part: &MissingPart) -> bool {
        self == Self::Made && part.plan.without_rules() != part.plan
    }
}

/// A part to report as repaired, and the plan that repairs it.
type Todo = (NamedPart, Plan);

/// What is left to do for an attachment whose namespace is entered: the rest of what was made with that of others, and what is
/// still missing. Attachments share more than these rules, and what one has lost may have come back with another.
fn left_of(found: Missing, case: &Case<'_>, joined: Joined, host: &mut LinuxHost) -> (Vec<Todo>, Vec<Error>) {
    let (made, rest): (Vec<_>, Vec<_>) = found.parts.into_iter().partition(|(_, part)| joined.has(part));
    let mut todo: Vec<Todo> =
        made.iter().map(|(plugin, part)| (NamedPart::new(plugin, part), part.plan.without_rules())).collect();
    if rest.is_empty() {
        return (todo, found.failures);
    }
    let still = case.look(host);
    todo.extend(still.parts.into_iter().map(|(plugin, part)| (NamedPart::new(plugin, &part), part.plan)));
    (todo, still.failures)
}

/// Does for an attachment what is left to do. A failure does not stop the rest. If the attachment is being deleted in the
/// meantime, by plugins that do not know of the lock or have waited for it too long, everything is undone, and what their DEL
/// could not remove because of it goes too: a chain that it had emptied has led somewhere again. That something of such an
/// attachment was not found is no failure. The connections that are stale by then are added to `flows`.
fn finish(
    case: &Case<'_>,
    found: Missing,
    joined: Joined,
    flows: &mut Vec<StaleFlows>,
    host: &mut LinuxHost,
) -> RepairOutcome {
    let made = found.parts.iter().filter(|(_, part)| joined.has(part));
    let mut plugins: Vec<String> = made.map(|(plugin, _)| (*plugin).to_owned()).collect();
    if let Err(outcome) = case.enter(host) {
        return undone(case, &plugins, Vec::new(), outcome, host);
    }
    let (todo, mut failures) = left_of(found, case, joined, host);
    plugins.extend(todo.iter().map(|(named, _)| named.plugin.clone()));
    let mut journal = Journal::new(host);
    let (mut repaired, mut stale) = (Vec::new(), Vec::new());
    for (named, mut plan) in todo {
        let taken = plan.take_flows();
        match journal.apply(&plan) {
            Ok(()) => {
                repaired.push(named);
                stale.extend(taken);
            }
            Err(error) => failures.push(error),
        }
    }
    match case.lost(journal.host()) {
        Ok(None) => {
            journal.commit();
            flows.extend(stale);
        }
        Ok(Some(why)) => {
            let error = journal.rollback(RepairError::Deleted.into());
            let failures = if error.details().is_empty() { Vec::new() } else { vec![error] };
            return undone(case, &plugins, failures, RepairOutcome::Skipped(why), host);
        }
        Err(error) => {
            journal.commit();
            failures.push(error);
        }
    }
    with_failures(failures, repaired, RepairOutcome::Repaired)
}

/// Removes the rules of these plugins, unless the attachment has an interface: then they are its own.
fn undone(
    case: &Case<'_>,
    plugins: &[String],
    mut failures: Vec<Error>,
    outcome: RepairOutcome,
    host: &mut LinuxHost,
) -> RepairOutcome {
    if !plugins.is_empty() && !case.has_interface_after_all(host) {
        let removed = RuleDeletions::new(case.cached(), plugins).and_then(|deletions| deletions.carry_out(host));
        failures.extend(removed.err());
    }
    if failures.is_empty() { outcome } else { RepairOutcome::Failed(failures, Box::new(RepairOutcome::Complete)) }
}
