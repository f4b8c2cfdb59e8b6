//! What has become of the cases.

use std::time::Duration;

use cni_conformance::case::requirement::{Obligation, Passage};
use cni_conformance::case::{Failure, Variant};
use cni_conformance::transcript::Exchange;
use serde::{Deserialize, Serialize};

/// The ending of one way to carry out a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Ending {
    /// The plugins did what they must.
    Passed,
    /// They did something else.
    Failed(Failure),
    /// They are the reference's, and did what is known of it.
    Differs(Failure),
    /// Something is missing: the plugin, the version, or what the kernel must have.
    NotHad {
        /// What.
        reason: String,
    },
}

/// What the process of a case tells the one that has started it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Where it has failed.
    pub failure: Option<Failure>,
    /// The process that keeps its host.
    pub kept: Option<u32>,
    /// All calls of plugins.
    pub calls: Vec<Exchange>,
    /// What was said in each line of the script.
    pub said: Vec<String>,
}

/// One way to carry out a case, and what has become of it.
#[derive(Debug)]
pub struct Done {
    /// Which.
    pub variant: Variant,
    /// Its ending.
    pub ending: Ending,
    /// The calls of plugins.
    pub calls: Vec<Exchange>,
    /// What was said in each line of the script.
    pub said: Vec<String>,
    /// The process that keeps its host.
    pub kept: Option<u32>,
    /// Its running time.
    pub elapsed: Duration,
}

impl Done {
    /// Where the SPEC says it.
    pub fn passages(&self) -> Vec<&'static Passage> {
        let version = self.variant.subject.as_ref().map_or("1.0.0", |(_, version)| version);
        let mut passages = self.variant.case.passages(version);
        passages.sort_by_key(|passage| std::cmp::Reverse(passage.obligation));
        passages
    }

    /// What it obliges to.
    pub fn obligation(&self) -> Option<Obligation> {
        self.passages().first().map(|passage| passage.obligation)
    }

    /// Whether it failed.
    pub fn failed(&self) -> bool {
        matches!(self.ending, Ending::Failed(_))
    }
}

/// How many have which ending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub passed: usize,
    /// Failures of what is no requirement of the SPEC.
    pub failed: usize,
    pub failed_must: usize,
    pub failed_should: usize,
    pub differs: usize,
    pub not_had: usize,
}

impl Tally {
    /// Counts.
    pub fn of<'d>(all: impl IntoIterator<Item = &'d Done>) -> Self {
        let mut tally = Self::default();
        for done in all {
            *match (&done.ending, done.obligation()) {
                (Ending::Passed, _) => &mut tally.passed,
                (Ending::Failed(_), Some(Obligation::Must)) => &mut tally.failed_must,
                (Ending::Failed(_), Some(Obligation::Should)) => &mut tally.failed_should,
                (Ending::Failed(_), None) => &mut tally.failed,
                (Ending::Differs(_), _) => &mut tally.differs,
                (Ending::NotHad { .. }, _) => &mut tally.not_had,
            } += 1;
        }
        tally
    }

    /// All that failed.
    pub const fn all_failed(self) -> usize {
        self.failed + self.failed_must + self.failed_should
    }
}
