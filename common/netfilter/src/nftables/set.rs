//! Sets of addresses: one look-up instead of a rule for each address.

use std::fmt;
use std::net::IpAddr;

use super::name::NftName;
use super::object::TableId;
use cni_core::family::Family;

/// Which set: `inet cni_firewall containers_v4`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetId {
    pub table: TableId,
    pub name: NftName,
}

/// A set of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub id: SetId,
    /// The family of the addresses.
    pub family: Family,
}

/// Addresses in one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetElements {
    pub set: SetId,
    /// The addresses, which are of its family.
    pub addresses: Vec<IpAddr>,
}

impl Set {
    /// The word of `nft` for what the set holds.
    pub const fn type_name(&self) -> &'static str {
        match self.family {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        }
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.name)
    }
}

impl fmt::Display for SetElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, addresses } = self;
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        write!(f, "{set} {{ {} }}", addresses.join(", "))
    }
}
