//! The versions of the SPEC that cases cover.

use std::fmt;

/// A version of the CNI SPEC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpecVersion {
    /// `0.4.0`, the first with CHECK.
    V0_4_0,
    /// `1.0.0`
    V1_0_0,
    /// `1.1.0`, the first with GC and STATUS.
    V1_1_0,
}

impl SpecVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The value of `cniVersion`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
