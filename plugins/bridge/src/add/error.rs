//! Errors of planning an ADD, in the reference's words where it has some.

use cni_core::error::{Code, Failure};
use cni_model::plan::OtherAddressError;

/// An ADD that cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A link with the bridge's name is not a bridge.
    #[error("failed to create bridge {name:?}: {name:?} already exists but is not a bridge")]
    NotABridge { name: String, kind: String },
    /// The bridge, or the link to the VLAN, has an address of another network.
    #[error(transparent)]
    OtherAddress(#[from] OtherAddressError),
}

impl Failure for PlanError {
    fn code(&self) -> Code {
        match self {
            Self::NotABridge { .. } => Code::Conflict,
            Self::OtherAddress(error) => error.code(),
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotABridge { kind, .. } => format!("it is of kind {kind:?}"),
            Self::OtherAddress(error) => error.details(),
        }
    }
}
