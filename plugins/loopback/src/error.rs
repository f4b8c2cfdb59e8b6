//! Errors about a container's loopback interface.

use cni_core::error::{Code, Failure};
use cni_model::link::Address;

/// Errors about a container's loopback interface.
#[derive(Debug, thiserror::Error)]
pub enum LoopbackError {
    #[error("there is no interface lo in {netns:?}")]
    Missing { netns: String },
    #[error("loopback interface is down")]
    Down { netns: String },
    #[error("loopback interface found with non-loopback address {:?}", address.cidr.address().to_string())]
    ForeignAddress { address: Address },
}

impl Failure for LoopbackError {
    fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::InvalidNetns,
            Self::Down { .. } => Code::CheckFailed,
            Self::ForeignAddress { .. } => Code::Conflict,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Down { netns } => format!("lo in {netns:?} does not have the flag IFF_UP"),
            Self::Missing { .. } | Self::ForeignAddress { .. } => String::new(),
        }
    }
}
