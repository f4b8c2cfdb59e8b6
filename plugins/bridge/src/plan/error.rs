//! Why an ADD cannot be planned, in the reference's words where it has some.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};

/// An ADD that cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The container has an interface of this name: SPEC "ADD" makes that an error.
    #[error("container veth name ({ifname:?}) peer provided ({host:?}) already exists")]
    InterfaceExists {
        /// The name inside the container.
        ifname: String,
        /// The name that the host's end would have had.
        host: String,
    },
    /// There is a link of the bridge's name that is no bridge.
    #[error("failed to create bridge {name:?}: {name:?} already exists but is not a bridge")]
    NotABridge {
        /// The name.
        name: String,
        /// What it is.
        kind: String,
    },
    /// The IPAM plugin gave no address.
    #[error("IPAM plugin returned missing IP config")]
    NoAddress,
    /// The network has no address left for a gateway.
    #[error("no address follows {network} to be the gateway's")]
    NoGateway {
        /// The network.
        network: Cidr,
    },
    /// The bridge, or the link to the VLAN, has an address of another network.
    #[error("failed to set bridge addr: {bridge:?} already has an IP address different from {gateway}")]
    OtherAddress {
        /// The bridge or the link.
        bridge: String,
        /// The address that was wanted.
        gateway: Cidr,
        /// The address that is there.
        found: Cidr,
    },
    /// A route's next hop is of another family than its destination.
    #[error("failed to add route to {dst}: its gateway {gw} is of another family")]
    RouteFamily {
        /// The destination.
        dst: Cidr,
        /// The next hop.
        gw: IpAddr,
    },
    /// A route has a number that the kernel does not take.
    #[error("failed to add route to {dst}: {key} {value} is out of range")]
    RouteNumber {
        /// The destination.
        dst: Cidr,
        /// The key.
        key: &'static str,
        /// The value.
        value: i64,
    },
}

impl Failure for PlanError {
    fn code(&self) -> Code {
        match self {
            Self::InterfaceExists { .. } | Self::NotABridge { .. } | Self::OtherAddress { .. } => Code::Conflict,
            Self::NoAddress | Self::NoGateway { .. } | Self::RouteFamily { .. } | Self::RouteNumber { .. } => {
                Code::InvalidConfig
            }
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotABridge { kind, .. } => format!("it is of kind {kind:?}"),
            Self::OtherAddress { found, .. } => {
                format!("it has {found}; forceAddress: true replaces it, for every container on the bridge")
            }
            Self::InterfaceExists { .. }
            | Self::NoAddress
            | Self::NoGateway { .. }
            | Self::RouteFamily { .. }
            | Self::RouteNumber { .. } => String::new(),
        }
    }
}
