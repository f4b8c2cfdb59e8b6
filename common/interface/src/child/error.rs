//! Errors of finding the master.

use cni_core::error::{Code, Failure};
use cni_model::plan::Ns;

/// The master does not exist, or none can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterError {
    /// The configured master does not exist.
    #[error("failed to lookup master {name:?}: Link not found")]
    NotFound {
        /// The name.
        name: String,
        /// The namespace that was searched.
        ns: Ns,
    },
    /// The configuration names none, and no default route leads to one.
    #[error("no default route interface found")]
    NoDefaultRoute {
        /// The namespace that was searched.
        ns: Ns,
        /// The default routes that lead to no usable master, with the reason.
        unusable: Vec<String>,
    },
}

impl Failure for MasterError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } | Self::NoDefaultRoute { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotFound { ns, .. } => format!("the {ns} has no link of this name; linkInContainer says where it is"),
            Self::NoDefaultRoute { ns, unusable } if unusable.is_empty() => {
                format!("master is not given, and the {ns} has no default route")
            }
            Self::NoDefaultRoute { ns, unusable } => {
                format!("master is not given, and on the {ns} {}", unusable.join(", and "))
            }
        }
    }
}
