//! Where these plugins and the reference part on purpose, and why. It is left out of a history before it is lived through; what
//! differs in lines only stands in [`super::accepted`].
//!
//! The page "Better than the reference" says what comes of each, and which tests show it.

mod configurations;
mod steps;

use std::collections::BTreeMap;
use std::fmt;

use super::history::History;
use steps::Course;

/// How much was left out, by the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    left_out: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// Leaves out what may differ, of configurations first and then of what happens.
    #[must_use]
    pub fn without(&mut self, mut history: History) -> History {
        for row in &configurations::ROWS {
            self.count(row.reason, (row.leave_out)(&mut history));
        }
        let mut course = Course::of(&history);
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

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (reason, times) in &self.left_out {
            writeln!(f, "  left out {times} times: {reason}")?;
        }
        Ok(())
    }
}
