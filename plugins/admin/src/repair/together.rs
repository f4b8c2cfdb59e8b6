//! Several attachments in one change of each table.
//!
//! For every change of a table the kernel checks all of it, so to put back the rules of one container after the other takes a
//! time that grows with the square of their number. What belongs to one container alone is done for each by itself.

use std::cell::RefCell;

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
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

/// So many attachments are repaired together: ADD, DEL and GC may have to wait for the last of them.
pub const MOST: usize = 512;

/// So many where each is repaired by itself, which takes some ten milliseconds beside a thousand others. They wait for ten seconds.
const FEW: usize = 64;

/// Repairs attachments that nothing of ours works on meanwhile, and tells the outcome for each.
pub fn repair_together(
    attachments: &[(Cached, &CacheFile)],
    calls: &RefCell<WatchedCalls>,
    host: &mut LinuxHost,
) -> Vec<RepairOutcome> {
    let found = find_all(attachments, calls, host);
    let joined = Joined::make(found.iter().flatten().map(|(_, missing)| missing), host);
    if joined == Joined::Refused && attachments.len() > FEW {
        let few = |few| {
            // Gives back the locks.
            host.end_request();
            repair_together(few, calls, host)
        };
        return attachments.chunks(FEW).flat_map(few).collect();
    }
    let mut flows = Vec::new();
    let finish = |found: Result<(Case<'_>, Missing), RepairOutcome>| {
        found.map_or_else(|outcome| outcome, |(case, missing)| finish(&case, missing, joined, &mut flows, host))
    };
    let outcomes = found.into_iter().map(finish).collect();
    if !flows.is_empty() {
        host.forget_flows(&flows);
    }
    outcomes
}

/// What is missing of each. Where something is missing of one, it is expected of the next. Of a complete attachment nothing is kept,
/// since nearly all are complete.
fn find_all<'a>(
    attachments: &'a [(Cached, &CacheFile)],
    calls: &'a RefCell<WatchedCalls>,
    host: &mut LinuxHost,
) -> Vec<Result<(Case<'a>, Missing), RepairOutcome>> {
    let (mut found, mut is_expected) = (Vec::with_capacity(attachments.len()), false);
    for (cached, file) in attachments {
        let one = Case::new(cached, file, calls).and_then(|case| {
            let missing = case.find_locked(is_expected, host);
            is_expected = missing.is_ok();
            Ok((case, missing?))
        });
        found.push(one);
    }
    found
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
