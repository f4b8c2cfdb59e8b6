//! Why an ADD cannot be planned, in the reference's words where it has some.

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};

/// An ADD that cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A link with the bridge's name is not a bridge.
    #[error("failed to create bridge {name:?}: {name:?} already exists but is not a bridge")]
    NotABridge { name: String, kind: String },
    /// The bridge, or the link to the VLAN, has an address of another network.
    #[error("failed to set bridge addr: {bridge:?} already has an IP address different from {gateway}")]
    OtherAddress { bridge: String, gateway: Cidr, found: Cidr },
}

impl Failure for PlanError {
    fn code(&self) -> Code {
        match self {
            Self::NotABridge { .. } | Self::OtherAddress { .. } => Code::Conflict,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotABridge { kind, .. } => format!("it is of kind {kind:?}"),
            Self::OtherAddress { found, .. } => {
                format!("it has {found}; forceAddress: true replaces it, for every container on the bridge")
            }
        }
    }
}
