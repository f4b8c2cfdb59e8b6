//! The second look: whether what was repaired has been deleted in the meantime.
//!
//! Our plugins and `repair` exclude each other, but those of others know no lock. Between their DEL of the ports and that
//! of the interface, rules are missing of an attachment that seems to live; put back, they would stay for ever. So
//! `repair` looks again when nobody's DEL is under way any more.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::plugin_calls::RunningCalls;
use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_plugin::exclusion;
use cni_plugin::host::Host;

use super::case::{RuleDeletions, has_interface_by_record};
use super::error::RepairError;
use super::outcome::RepairOutcome;
use crate::cache::Cached;
use crate::calls::can_work_on;
use crate::life::has_interface;

/// How long a runtime may take from the end of one plugin's DEL to the start of the next: on a busy machine longer, as
/// `repair` takes longer for each attachment. With 100 ms at least, rules stayed behind after one of some 20 rounds of
/// `conformance/tests/host/parallel` on a machine with ten times as many processes as processors.
const BETWEEN_PLUGINS: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(2);

/// The pause is so many times what one attachment has taken.
const PAUSE_RATIO: u32 = 50;

/// How long is waited for a DEL to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// An attachment whose rules have been put back.
pub struct RestoredRules {
    pub cached: Cached,
    /// The file of the cache that told of it.
    pub file: PathBuf,
    /// The plugins that something was missing from.
    pub plugins: Vec<String>,
}

/// Looks again at what a repair has put back, and removes what belongs to nobody any more. Tells of every attachment that does not
/// stay as it was repaired. `repair` is the time from its start to its end.
pub fn look_again(
    mut watched: Vec<RestoredRules>,
    repair: Range<Instant>,
    mut tell: impl FnMut(&RestoredRules, RepairOutcome),
) {
    let Range { start, end: ended } = repair;
    let pause = pause(ended - start, watched.len());
    let mut next = ended + pause;
    while !watched.is_empty() {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next = Instant::now() + pause;
        let running = RunningCalls::observe();
        let is_going =
            |one: &RestoredRules| running.find(&one.cached.at, |name| can_work_on(&one.cached, name)).is_some();
        let (going, settled): (Vec<_>, Vec<_>) = watched.into_iter().partition(is_going);
        for one in settled.iter().filter(|one| one.is_deleted()) {
            if let Some(outcome) = one.take_back() {
                tell(one, outcome);
            }
        }
        if ended.elapsed() > PATIENCE {
            let unended =
                || RepairOutcome::Failed(vec![RepairError::Unended.into()], Box::new(RepairOutcome::Complete));
            return going.iter().for_each(|one| tell(one, unended()));
        }
        watched = going;
    }
}

/// The pause after a repair that has taken so long for so many attachments.
fn pause(taken: Duration, attachments: usize) -> Duration {
    let each = taken / u32::try_from(attachments.max(1)).unwrap_or(u32::MAX);
    each.saturating_mul(PAUSE_RATIO).clamp(*BETWEEN_PLUGINS.start(), *BETWEEN_PLUGINS.end())
}

impl RestoredRules {
    /// The runtime removes the file at the end of DEL.
    fn is_deleted(&self) -> bool {
        matches!(self.file.try_exists(), Ok(false))
    }

    /// The outcome; `None` when the attachment has an interface, and keeps its rules.
    fn take_back(&self) -> Option<RepairOutcome> {
        match self.remove() {
            Ok(Removed::Nothing) => None,
            Ok(Removed::Rules) => Some(RepairOutcome::TakenBack(RepairError::Deleted.to_string())),
            Err(error) => Some(RepairOutcome::Failed(vec![error], Box::new(RepairOutcome::Complete))),
        }
    }

    fn remove(&self) -> Result<Removed, Error> {
        let deletions = RuleDeletions::new(&self.cached, &self.plugins)?;
        let Some(request) = deletions.request() else { return Ok(Removed::Nothing) };
        let mut host = LinuxHost::new(request);
        exclusion::begin_repair(&self.cached.at, &mut host)?;
        if self.is_kept(&mut host)? {
            return Ok(Removed::Nothing);
        }
        deletions.carry_out(&mut host).map(|()| Removed::Rules)
    }

    /// Whether the rules are those of a container that has its interface: its file was lost, or the runtime has added the
    /// attachment again. libcni writes its file after the last ADD, and the record comes before that. Plugins of others
    /// write no record.
    fn is_kept(&self, host: &mut dyn Host) -> Result<bool, Error> {
        let is_recorded = !self.is_deleted() || has_interface_by_record(&self.cached.at, host)?;
        Ok(is_recorded || self.is_in_place(host)?)
    }

    /// Whether the path of the namespace leads to the interface.
    fn is_in_place(&self, host: &mut dyn Host) -> Result<bool, Error> {
        let is_entered = self.cached.netns.as_deref().is_some_and(|path| host.enter(path).is_ok());
        Ok(is_entered && has_interface(&self.cached, host)?)
    }
}

/// What has been removed of an attachment.
enum Removed {
    Nothing,
    Rules,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_long_where_the_machine_is_slow_and_not_where_there_is_much_to_do() {
        let millis = Duration::from_millis;
        for (taken, attachments, want) in [
            (millis(3), 1, millis(500)),
            (millis(4500), 1500, millis(500)),
            (millis(900), 30, millis(1500)),
            (millis(5000), 0, millis(2000)),
        ] {
            assert_eq!(pause(taken, attachments), want, "{taken:?} for {attachments}");
        }
    }
}
