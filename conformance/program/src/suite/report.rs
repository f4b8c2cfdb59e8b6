//! The outcome of one case, passed from the process that ran it to its parent.

use serde::{Deserialize, Serialize};

use cni_conformance::transcript::Exchange;

use super::judge::Mismatch;

/// The ending of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum CaseEnding {
    /// The plugin did what it must.
    Passed,
    /// The plugin did something else.
    Failed(Mismatch),
    /// The case could not do its work, so that nothing is known of the plugin.
    Broken {
        /// The failure.
        problem: String,
    },
    /// The case could not be tried.
    NotRun {
        /// What is missing.
        reason: String,
    },
}

/// An ending, and all that was sent and came back on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseReport {
    /// The ending of the case.
    #[serde(flatten)]
    pub ending: CaseEnding,
    /// The calls of plugins, in their order.
    pub calls: Vec<Exchange>,
}
