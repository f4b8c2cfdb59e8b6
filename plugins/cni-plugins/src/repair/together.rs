//! Several attachments in one change of each table.
//!
//! For every change of a table the kernel checks all of it, so to put back the rules of one container after the other takes a
//! time that grows with the square of their number. What belongs to one container alone is done for each by itself.

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::Plan;

use super::case::{Case, Missing, RuleDeletions};
use super::error::RepairError;
use super::outcome::{NamedPart, RepairOutcome, with_failures};

/// So many attachments are repaired together: a DEL of the first of them may have to wait for the last.
pub const MOST: usize = 32;

/// Repairs attachments that nothing of ours works on meanwhile, and tells the outcome for each.
pub fn repair_together(cases: &[&Case<'_>], host: &mut LinuxHost) -> Vec<RepairOutcome> {
    let found: Vec<_> = cases.iter().map(|case| case.find_locked(host)).collect();
    let joined = Joined::make(found.iter().flatten(), host);
    let finish = |(case, found): (&&Case<'_>, Result<Missing, RepairOutcome>)| {
        found.map_or_else(|outcome| outcome, |missing| finish(case, joined.left_of(missing, case, host), joined, host))
    };
    cases.iter().zip(found).map(finish).collect()
}

/// Whether the rules of all are there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    Made,
    /// Each attachment's are made with the rest of its plan.
    Not,
}

impl Joined {
    /// Makes the rules of several attachments. Where that fails, everything is as it was.
    fn make<'a>(all: impl Iterator<Item = &'a Missing>, host: &mut LinuxHost) -> Self {
        let all: Vec<&Missing> = all.filter(|missing| !missing.parts.is_empty()).collect();
        if all.len() < 2 {
            return Self::Not;
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
                Self::Not
            }
        }
    }

    /// What is repaired of an attachment, now that it is its turn: the rules that were made with those of others, and what is still
    /// missing. Attachments share more than these rules, and what one has lost has come back with another.
    fn left_of(self, found: Missing, case: &Case<'_>, host: &mut LinuxHost) -> Missing {
        let is_made = |part: &MissingPart| self == Self::Made && part.plan.without_rules() != part.plan;
        if found.parts.iter().all(|(_, part)| is_made(part)) {
            return found;
        }
        if let Err(outcome) = case.enter(host) {
            log::debug!("what is missing is not looked for again: {outcome}");
            return found;
        }
        let mut left = case.look(host);
        let made: Vec<_> = found.parts.into_iter().filter(|(_, part)| is_made(part)).collect();
        left.parts.splice(0..0, made);
        left
    }

    /// What is left to do.
    fn rest_of(self, plan: &Plan) -> Plan {
        match self {
            Self::Made => plan.without_rules(),
            Self::Not => plan.clone(),
        }
    }
}

/// Does for an attachment what is left to do. A failure does not stop the rest. If the attachment is being deleted in the
/// meantime, by plugins that do not know of the lock, everything is undone.
fn finish(case: &Case<'_>, missing: Missing, joined: Joined, host: &mut LinuxHost) -> RepairOutcome {
    let Missing { parts, mut failures } = missing;
    let plugins: Vec<String> = parts.iter().map(|(plugin, _)| (*plugin).to_owned()).collect();
    if let Err(outcome) = case.enter(host) {
        return undone(case, &plugins, joined, failures, outcome, host);
    }
    let mut journal = Journal::new(host);
    let mut repaired = Vec::new();
    for (plugin, part) in parts {
        match journal.apply(&joined.rest_of(&part.plan)) {
            Ok(()) => repaired.push(NamedPart::new(plugin, &part)),
            Err(error) => failures.push(error),
        }
    }
    match case.lost(journal.host()) {
        Ok(None) => journal.commit(),
        Ok(Some(why)) => {
            let error = journal.rollback(RepairError::Deleted.into());
            if !error.details().is_empty() {
                failures.push(error);
            }
            return undone(case, &plugins, joined, failures, RepairOutcome::Skipped(why), host);
        }
        Err(error) => {
            journal.commit();
            failures.push(error);
        }
    }
    with_failures(failures, repaired, RepairOutcome::Repaired)
}

/// Removes the rules that were made with those of others.
fn undone(
    case: &Case<'_>,
    plugins: &[String],
    joined: Joined,
    mut failures: Vec<Error>,
    outcome: RepairOutcome,
    host: &mut LinuxHost,
) -> RepairOutcome {
    if joined == Joined::Made {
        let removed = RuleDeletions::new(case.cached(), plugins).and_then(|deletions| deletions.carry_out(host));
        failures.extend(removed.err());
    }
    if failures.is_empty() { outcome } else { RepairOutcome::Failed(failures, Box::new(RepairOutcome::Complete)) }
}
