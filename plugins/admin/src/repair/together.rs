//! Several attachments in one change of each table.
//!
//! For every change of a table the kernel checks all of it, so to put back the rules of one container after the other takes a
//! time that grows with the square of their number. What belongs to one container alone is done for each by itself.

use std::ops::Range;
use std::time::{Duration, Instant};

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_linux::host::LinuxHost;
use cni_model::plan::Plan;
use cni_netfilter::flows::StaleFlows;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;

use super::case::{Case, DELETED, Missing, remove_rules};
use super::outcome::{NamedPart, RepairOutcome, with_failures};
use crate::cache::Cached;
use crate::result_cache::CacheFile;

/// So many attachments are locked together, and their rules put back in one change of each table. ADD, DEL and GC may have to wait for
/// the last of them.
pub const MOST: usize = 512;

/// Once locks are as old as this, no more are taken before all are given back. Others wait for ten seconds.
const LOCKED_FOR: Duration = Duration::from_secs(2);

/// An attachment that lacks more than rules of iptables is repaired by itself, which takes some ten milliseconds beside a thousand others.
/// Once this many such are locked, no more are locked.
const MOST_ALONE: usize = 256;

/// So many are locked together where the kernel refuses to change the rules of many at once.
const FEW: usize = 64;

/// Repairs a part of some attachments, which nothing of ours works on meanwhile, and returns the outcome for each of the part.
///
/// A DEL has the lock of its attachment when it waits for that of a port or an address. So no attachment is locked while this process
/// may have locks of ports or addresses: all locks are given back before.
pub fn repair_together(all: &[(Cached, &CacheFile)], part: Range<usize>, host: &mut LinuxHost) -> Vec<RepairOutcome> {
    let mut outcomes = Vec::with_capacity(part.len());
    while outcomes.len() < part.len() {
        let start = part.start + outcomes.len();
        let found = find_some(&all[start..part.end], host);
        let joined = Joined::make(found.iter().flatten().map(|(_, missing)| missing), host);
        if joined == Joined::Refused && found.len() > FEW {
            let end = start + found.len();
            drop(found);
            for few in (start..end).step_by(FEW) {
                host.end_request();
                outcomes.extend(repair_together(all, few..end.min(few + FEW), host));
            }
        } else {
            let settled = if joined == Joined::Made { settle(&found, host) } else { Vec::new() };
            finish_all(found, joined, settled, &all[start..], &mut outcomes, host);
        }
        host.end_request();
    }
    outcomes
}

/// An attachment with what is missing of it, or its outcome, if there is nothing to do.
type Found<'a> = Result<(Case<'a>, Missing), RepairOutcome>;

/// The outcome of an attachment that lacked only rules of iptables, and the connections that are stale now.
type Settled = (RepairOutcome, Vec<StaleFlows>);

/// Locks and looks at as many of some attachments, from the first on, as may be locked together. Others may hold a lock for a long time:
/// it is waited for only if this process has none yet. Otherwise it stops there. Of a complete attachment nothing is kept, since nearly all
/// are complete.
fn find_some<'a>(attachments: &'a [(Cached, &CacheFile)], host: &mut LinuxHost) -> Vec<Found<'a>> {
    let (started, mut alone, mut networks) = (Instant::now(), 0, Vec::new());
    let mut found: Vec<Found<'a>> = Vec::with_capacity(attachments.len());
    for (cached, file) in attachments {
        let one = Case::new(cached, file).and_then(|case| {
            host.next_request(case.request());
            let is_first = !networks.contains(&&cached.at.network);
            let missing = case.find_locked(is_first, networks.is_empty(), host)?;
            if missing.is_some() && is_first {
                networks.push(&cached.at.network);
            }
            Ok(missing.map(|missing| (case, missing)))
        });
        if one.is_err() && networks.is_empty() {
            // An attachment that is left alone keeps no locks.
            host.end_request();
        }
        let Some(one) = one.transpose() else { break };
        alone += usize::from(one.as_ref().is_ok_and(|(_, missing)| missing.flows_of_rules().is_none()));
        found.push(one);
        if alone >= MOST_ALONE || started.elapsed() > LOCKED_FOR {
            break;
        }
    }
    found
}

/// Looks whether attachments are still there, now that their rules have been made. Returns the outcome of each that lacked nothing else.
fn settle(found: &[Found<'_>], host: &mut LinuxHost) -> Vec<Option<Settled>> {
    let settle = |found: &Found<'_>| {
        let (case, missing) = found.as_ref().ok()?;
        let flows = missing.flows_of_rules()?;
        host.next_request(case.request());
        case.enter(host).ok()?;
        let stays = matches!(case.lost(host), Ok(None));
        let named = missing.parts.iter().map(|(plugin, part)| NamedPart::new(plugin, part)).collect();
        stays.then(|| (with_failures(Vec::new(), named, RepairOutcome::Repaired), flows))
    };
    found.iter().map(settle).collect()
}

/// Repairs what is left of the attachments that are not `settled`, and adds all outcomes in their order. `from` has the attachments, and
/// those that are repaired after them.
fn finish_all(
    found: Vec<Found<'_>>,
    joined: Joined,
    settled: Vec<Option<Settled>>,
    from: &[(Cached, &CacheFile)],
    outcomes: &mut Vec<RepairOutcome>,
    host: &mut LinuxHost,
) {
    let mut flows = Vec::new();
    let settled = settled.into_iter().chain(std::iter::repeat_with(|| None));
    for (at, (found, settled)) in found.into_iter().zip(settled).enumerate() {
        outcomes.push(match (settled, found) {
            (Some((outcome, stale)), _) => {
                flows.extend(stale);
                outcome
            }
            (None, Ok((case, missing))) => finish(&case, missing, joined, &from[at + 1..], &mut flows, host),
            (None, Err(outcome)) => outcome,
        });
    }
    if !flows.is_empty() {
        host.forget_flows(&flows);
    }
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
/// attachment was not found is no failure. What was put back is recorded. The connections that are stale by then are added to `flows`.
fn finish(
    case: &Case<'_>,
    found: Missing,
    joined: Joined,
    next: &[(Cached, &CacheFile)],
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
            let error = journal.rollback(fail!(TryAgain, "{DELETED}"));
            let failures = if error.details().is_empty() { Vec::new() } else { vec![error] };
            return undone(case, &plugins, failures, RepairOutcome::Skipped(why), host);
        }
        Err(error) => {
            journal.commit();
            failures.push(error);
        }
    }
    if failures.is_empty()
        && let Err(error) = record(case, next, host)
    {
        failures.push(error);
    }
    with_failures(failures, repaired, RepairOutcome::Repaired)
}

/// Records what is not recorded of an attachment whose rules are all there. It does not wait for a lock that another process has, which
/// may wait for one of this process.
fn record(case: &Case<'_>, next: &[(Cached, &CacheFile)], host: &mut LinuxHost) -> Result<(), Error> {
    let is_next = |at: &Attachment| next.iter().any(|(cached, _)| cached.at == *at);
    let missing = case.find_missing_records(&is_next, host)?;
    host.set_waiting(false);
    let locked = missing.iter().flat_map(|one| &one.locks).try_for_each(|lock| host.lock(lock));
    host.set_waiting(true);
    if let Err(error) = locked {
        log::warn!("not all of container {} is recorded: {}", case.cached().at.container, error.in_full());
        return Ok(());
    }
    if !missing.is_empty() {
        for one in case.find_missing_records(&is_next, host)? {
            (host as &mut dyn Host).carry_out(&one.plan)?;
        }
    }
    Ok(())
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
        failures.extend(remove_rules(case.cached(), plugins, host).err());
    }
    if failures.is_empty() { outcome } else { RepairOutcome::Failed(failures, Box::new(RepairOutcome::Complete)) }
}
