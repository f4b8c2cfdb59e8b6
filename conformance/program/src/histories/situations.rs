//! Intended differences between these plugins and the reference, and their reasons. They are left out of a history
//! before it runs; differences in single lines are in [`cni_conformance::compare::accepted`].
//!
//! The page "Better than the reference" describes each of them, with its tests.

mod configurations;
mod steps;

use std::collections::BTreeMap;
use std::fmt;

use super::history::History;
pub use steps::ContainerStates;

/// How often something was left out, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    left_out: BTreeMap<&'static str, usize>,
}

impl LeftOut {
    /// Leaves out what may differ, of configurations first and then of what happens.
    #[must_use]
    pub fn without(&mut self, mut history: History) -> History {
        for row in &configurations::ROWS {
            self.count(row.reason, (row.leave_out)(&mut history));
        }
        let mut course = ContainerStates::of(&history);
        for step in std::mem::take(&mut history.steps) {
            match steps::reason(&course, &step) {
                Some(reason) => self.count(reason, 1),
                None => {
                    course.goes_on(&step);
                    history.steps.push(step);
                }
            }
        }
        history
    }

    /// Returns every reason for which something was left out.
    pub fn reasons(&self) -> impl Iterator<Item = &'static str> {
        self.left_out.keys().copied()
    }

    /// Records the number of steps that were left out after an ADD in which both failed.
    pub fn ended(&mut self, steps: usize) {
        self.count("a failed ADD of the reference leaves its interface, and what comes after differs", steps);
    }

    fn count(&mut self, reason: &'static str, times: usize) {
        if times > 0 {
            *self.left_out.entry(reason).or_default() += times;
        }
    }
}

/// Returns every reason for which something may be left out.
pub fn reasons() -> impl Iterator<Item = &'static str> {
    configurations::ROWS.iter().map(|row| row.reason).chain(steps::ROWS.iter().map(|row| row.reason))
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (reason, times) in &self.left_out {
            writeln!(f, "  left out {times} times: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LeftOut, reasons};
    use crate::histories::draw;
    use cni_conformance::reference::Level;

    fn left_out(histories: u64) -> LeftOut {
        let mut tally = LeftOut::default();
        for number in 0..histories {
            drop(tally.without(draw::history(1, number, Level::Old)));
        }
        tally
    }

    #[test]
    fn histories_come_to_every_situation() {
        let (met, known): (BTreeSet<_>, BTreeSet<_>) = (left_out(400).reasons().collect(), reasons().collect());
        assert_eq!(met, known);
    }

    #[test]
    fn what_was_left_out_once_is_left_out() {
        for number in 0..200 {
            let history = LeftOut::default().without(draw::history(1, number, Level::Old));
            assert_eq!(LeftOut::default().without(history.clone()), history);
        }
    }

    #[test]
    fn much_is_left_in() {
        let steps = |history: &crate::histories::History| history.steps.len();
        let drawn: Vec<_> = (0..200).map(|number| draw::history(1, number, Level::Old)).collect();
        let before: usize = drawn.iter().map(steps).sum();
        let after: usize = drawn.into_iter().map(|history| steps(&LeftOut::default().without(history))).sum();
        assert!(after * 2 > before, "{after} of {before} steps");
    }
}
