//! The outcome of all cases.

use std::time::Duration;

use cni_conformance::transcript::Exchange;
use cni_conformance_program::suite::{Case, CaseEnding, CaseReport};

/// A case that is done with.
#[derive(Debug)]
pub struct FinishedCase {
    /// Which.
    pub case: Case,
    /// The ending.
    pub ending: CaseEnding,
    /// The calls of plugins.
    pub calls: Vec<Exchange>,
    /// The running time.
    pub elapsed: Duration,
}

impl FinishedCase {
    /// A case that was not tried.
    pub fn not_run(case: &Case, reason: &str) -> Self {
        let ending = CaseEnding::NotRun { reason: reason.to_owned() };
        Self { case: case.clone(), ending, calls: Vec::new(), elapsed: Duration::ZERO }
    }

    /// A case whose process has reported this.
    pub fn reported(case: &Case, CaseReport { ending, calls }: CaseReport, elapsed: Duration) -> Self {
        Self { case: case.clone(), ending, calls, elapsed }
    }

    /// Whether the case failed.
    pub fn failed(&self) -> bool {
        match self.ending {
            CaseEnding::Failed(_) | CaseEnding::Broken { .. } => true,
            CaseEnding::Passed | CaseEnding::NotRun { .. } => false,
        }
    }
}

/// The number of cases by ending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub not_run: usize,
}

impl Tally {
    /// Counts cases.
    pub fn of<'d>(done: impl IntoIterator<Item = &'d FinishedCase>) -> Self {
        let mut tally = Self::default();
        for case in done {
            tally.count(case);
        }
        tally
    }

    /// Counts one more case.
    pub fn count(&mut self, done: &FinishedCase) {
        match done.ending {
            CaseEnding::Passed => self.passed += 1,
            CaseEnding::Failed(_) | CaseEnding::Broken { .. } => self.failed += 1,
            CaseEnding::NotRun { .. } => self.not_run += 1,
        }
    }

    /// The number of all cases.
    pub fn total(self) -> usize {
        self.passed + self.failed + self.not_run
    }
}
