//! What was found in one file, and what is to be compared among files.

use crate::finding::Finding;
use crate::ranges::NetworkRanges;

/// What was found in one file.
#[derive(Debug, Default)]
pub struct Judgement {
    pub findings: Vec<Finding>,
    /// The networks of host-local, to be compared with those of other files.
    pub ranges: Option<NetworkRanges>,
}
