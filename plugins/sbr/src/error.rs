//! Errors of routing packets by their source, and differences that CHECK finds.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;

/// A request that cannot be carried out, or what CHECK finds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SbrError {
    /// The plugin stands first in its list.
    #[error("This plugin must be called as chained plugin")]
    NoPrevResult,
    /// The table is no table.
    #[error("invalid table {table} (must be between 1 and 4294967295)")]
    Table { table: i64 },
    /// A gateway is no address of a router.
    #[error("invalid gateway {text:?} in gateways: it must be the IP address of a router")]
    Gateway { text: String },
    /// A table has one default route.
    #[error("gateways has more than one IP{family} address")]
    SeveralGateways { family: Family },
    /// The plugins before have given the interface no address.
    #[error("No IP addresses supplied on interface: {ifname}")]
    NoAddress { ifname: String },
    /// An address names an interface that the result does not have.
    #[error("address {address} of prevResult has the interface index {index}, and there are {count} interfaces")]
    Index { address: Cidr, index: i64, count: usize },
    /// The container has no such interface.
    #[error("Cannot find network interface {ifname}: Link not found")]
    NoLink { ifname: String },
    /// Packets with an address go by the main table.
    #[error("Failed to find the rule from {source_address}: its packets do not leave by {ifname}")]
    NoRule { source_address: IpAddr, ifname: String },
    /// Packets find no way out of the table.
    #[error("Failed to find the default route by {gateway} in table {table}")]
    NoDefault { gateway: IpAddr, table: u32 },
    /// Packets without a source address do not go to the network by the interface.
    #[error("Failed to find the route to {network} with a source address in the main table")]
    NoSourceHint { network: Cidr },
}

impl Failure for SbrError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult
            | Self::Table { .. }
            | Self::Gateway { .. }
            | Self::SeveralGateways { .. }
            | Self::NoAddress { .. }
            | Self::Index { .. } => Code::InvalidConfig,
            Self::NoLink { .. } => Code::Kernel,
            Self::NoRule { .. } | Self::NoDefault { .. } | Self::NoSourceHint { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        let is_empty = matches!(self, Self::NoAddress { .. });
        if is_empty { "no address of prevResult belongs to the interface".to_owned() } else { String::new() }
    }
}
