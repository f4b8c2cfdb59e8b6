//! Errors of putting an interface into a VRF, and differences that CHECK finds.

use cni_core::error::{Code, Failure};

/// A request that cannot be carried out, or what CHECK finds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VrfError {
    /// There is no name for the VRF, or one that no link can have.
    #[error("configuration is expected to have a valid vrf name")]
    Name { vrfname: String },
    /// The plugin stands first in its list.
    #[error("missing prevResult from earlier plugin")]
    NoPrevResult,
    /// A link of another kind has the name.
    #[error("Netlink {name} is not a VRF")]
    NotVrf { name: String, kind: String },
    /// The VRF has another table than the one that is wanted.
    #[error("VRF {name} already exist with different routing table {table}")]
    OtherTable { name: String, table: u32 },
    /// The container has no such interface.
    #[error("could not get link by name {ifname}")]
    NoLink { ifname: String },
    /// The interface is a port of something else.
    #[error("interface {ifname} has already a master set: {master}")]
    OtherMaster { ifname: String, master: String },
    /// The VRF is missing.
    #[error("could not find VRF {name}: Link not found")]
    NoVrf { name: String },
    /// The interface is not under it.
    #[error("failed to find {ifname} associated to vrf {name}")]
    NotUnder { ifname: String, name: String },
}

impl Failure for VrfError {
    fn code(&self) -> Code {
        match self {
            Self::Name { .. } | Self::NoPrevResult => Code::InvalidConfig,
            Self::NotVrf { .. } | Self::OtherTable { .. } | Self::OtherMaster { .. } => Code::Conflict,
            Self::NoLink { .. } => Code::Kernel,
            Self::NoVrf { .. } | Self::NotUnder { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Name { vrfname } => format!("vrfname {vrfname:?} is no name of a link"),
            Self::NotVrf { kind, .. } => format!("it is a link of kind {kind}"),
            Self::NoPrevResult
            | Self::OtherTable { .. }
            | Self::NoLink { .. }
            | Self::OtherMaster { .. }
            | Self::NoVrf { .. }
            | Self::NotUnder { .. } => String::new(),
        }
    }
}
