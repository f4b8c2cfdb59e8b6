//! The findings in one file, and the ranges to compare between files.

use crate::finding::Finding;
use crate::ranges::NetworkRanges;

/// The findings in one file.
#[derive(Debug, Default)]
pub struct Judgement {
    pub findings: Vec<Finding>,
    /// The networks of host-local, to be compared with those of other files.
    pub ranges: Option<NetworkRanges>,
}
