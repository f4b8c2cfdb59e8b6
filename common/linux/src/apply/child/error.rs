//! Errors of creating a link on a master, in the reference's words, with the likely cause.

use std::error::Error as _;

use cni_core::error::{Code, Failure};
use cni_core::names::IfName;
use cni_model::plan::{ChildKind, MasterLink};

use cni_kernel::netlink::NetlinkError;

/// Errors of creating a link on a master; nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    /// The kernel was built without such links.
    #[error(
        "failed to create {kind}: operation not supported: this kernel has no links of kind {kind}, load its module"
    )]
    UnknownKind {
        kind: &'static str,
        #[source]
        source: NetlinkError,
    },
    /// The kernel refused it.
    #[error("failed to create {kind}: {}", source.cause())]
    Refused {
        kind: &'static str,
        /// The likely cause.
        hint: Option<String>,
        #[source]
        source: NetlinkError,
    },
    /// Its final name was taken meanwhile.
    #[error("failed to rename {kind} to {:?}: {}", name.as_str(), source.cause())]
    Rename {
        kind: &'static str,
        name: IfName,
        #[source]
        source: NetlinkError,
    },
}

impl Failure for ChildError {
    fn code(&self) -> Code {
        match self {
            Self::UnknownKind { .. } => Code::UnsupportedField,
            Self::Refused { source, .. } | Self::Rename { source, .. } => match source.errno() {
                Some(libc::EEXIST | libc::EBUSY) => Code::Conflict,
                Some(_) | None => source.code(),
            },
        }
    }

    /// The kernel's own text, after what it may mean.
    fn details(&self) -> String {
        match self {
            Self::Refused { hint, source, .. } => {
                let kernel = source.cause().source().map(ToString::to_string);
                hint.clone().into_iter().chain(kernel).collect::<Vec<_>>().join("; ")
            }
            Self::UnknownKind { source, .. } | Self::Rename { source, .. } => source.details(),
        }
    }
}

/// The likely cause, by the kernel's error number.
pub(super) fn hint(kind: &ChildKind, master: &MasterLink, errno: Option<i32>) -> Option<String> {
    let master = &master.name;
    match (kind, errno?) {
        (_, libc::ENODEV) => Some(format!("{master} is gone")),
        (ChildKind::Macvlan { .. }, libc::EBUSY) => {
            Some(format!("{master} is a port of a bridge, bond or the like, or has links of kind ipvlan"))
        }
        (ChildKind::Ipvlan { .. }, libc::EBUSY) => {
            Some(format!("{master} is a port of a bridge, bond or the like, or has links of kind macvlan"))
        }
        (ChildKind::Vlan { id }, libc::EEXIST) => Some(format!(
            "VLAN {id} of {master} has a link already, which may be another container's, and can have one alone"
        )),
        (ChildKind::Macvlan { .. }, libc::EINVAL) => Some(format!(
            "{master} has a link in mode passthru, which must be its only one, or is no Ethernet link, or the MTU is too small"
        )),
        _ => None,
    }
}
