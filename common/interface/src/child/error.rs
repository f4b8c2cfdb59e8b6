//! Why there is no master.

use cni_core::error::{Code, Failure};
use cni_model::plan::Ns;

/// There is no such master, or none can be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterError {
    /// The configuration names one that is not there.
    #[error("failed to lookup master {name:?}: Link not found")]
    NotFound {
        /// The name.
        name: String,
        /// Where it was looked for.
        ns: Ns,
    },
    /// The configuration names none, and no default route leads to one.
    #[error("no default route interface found")]
    NoDefaultRoute {
        /// Where it was looked for.
        ns: Ns,
        /// The default routes that lead to no master, and why.
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
