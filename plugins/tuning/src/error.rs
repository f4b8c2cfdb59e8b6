//! Errors of the plugin.

use cni_core::error::{Code, Failure};

/// A request that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuningError {
    /// The interface that is to be changed does not exist.
    #[error("failed to get {name:?}: Link not found")]
    NoLink { name: String },
    /// The administrator has not allowed a parameter.
    #[error("Sysctl {key} is not allowed. Only the following sysctls are allowed: [{}]", patterns.join(" "))]
    NotAllowed { key: String, patterns: Vec<String>, list: &'static str },
}

impl Failure for TuningError {
    fn code(&self) -> Code {
        match self {
            Self::NoLink { .. } => Code::Kernel,
            Self::NotAllowed { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoLink { .. } => "the plugins before tuning have not made it".to_owned(),
            Self::NotAllowed { list, .. } => format!("no line of {list} matches it"),
        }
    }
}
