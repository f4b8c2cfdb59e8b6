//! Tables, chains, and sets of addresses: one look-up instead of a rule for each address.

use std::fmt;
use std::net::IpAddr;

use cni_core::family::Family;

use super::name::{NftComment, NftName};

/// The packets that a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableFamily {
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// IPv4 and IPv6.
    Inet,
    /// Frames that a bridge passes on.
    Bridge,
}

impl TableFamily {
    /// Its name in `nft`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Inet => "inet",
            Self::Bridge => "bridge",
        }
    }
}

impl From<Family> for TableFamily {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => Self::Ip,
            Family::V6 => Self::Ip6,
        }
    }
}

impl fmt::Display for TableFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which table: `inet cni_plugins_masquerade`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId {
    /// The packets that the table sees.
    pub family: TableFamily,
    pub name: NftName,
}

impl TableId {
    /// A table with a name that is fixed in the program.
    pub fn fixed(family: TableFamily, name: &'static str) -> Self {
        Self { family, name: NftName::fixed(name) }
    }

    /// A chain of this table with a name that is fixed in the program.
    pub fn chain(&self, name: &'static str) -> ChainId {
        self.chain_named(NftName::fixed(name))
    }

    /// A chain of this table.
    pub fn chain_named(&self, name: NftName) -> ChainId {
        ChainId { table: self.clone(), name }
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.name)
    }
}

/// Which chain: `inet cni_plugins_masquerade postrouting`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId {
    pub table: TableId,
    pub name: NftName,
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.name)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftTable {
    pub id: TableId,
    /// A note for the administrator.
    pub comment: Option<NftComment>,
}

/// The type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BaseChainType {
    /// Address translation: sees the first packet of each connection.
    Nat,
    /// Admission.
    Filter,
}

/// The point on a packet's path at which a base chain is called. The numbers are those of `enum nf_inet_hooks`; bridges have
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// When it has come in.
    Prerouting = 0,
    /// On its way to a process of the host.
    Input = 1,
    /// On its way through the host.
    Forward = 2,
    /// On its way from a process of the host.
    Output = 3,
    /// When it leaves.
    Postrouting = 4,
}

/// What happens to a packet that no rule of a base chain decides about: `NF_ACCEPT` or `NF_DROP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It passes.
    Accept = 1,
    /// The packet is dropped.
    Drop = 0,
}

/// The properties of a base chain, which packets enter without a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BaseChain {
    pub kind: BaseChainType,
    pub hook: Hook,
    /// Its place among the chains of the same hook, lowest first.
    pub priority: i32,
    /// Its policy, if it is to be set; that of a new chain is to accept.
    pub policy: Option<Policy>,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftChain {
    pub id: ChainId,
    /// The properties of a base chain; `None` for a chain that is entered only by jumps.
    pub base: Option<BaseChain>,
    /// A note for the administrator.
    pub comment: Option<NftComment>,
}

impl NftChain {
    /// A chain that rules jump to.
    pub const fn regular(id: ChainId) -> Self {
        Self { id, base: None, comment: None }
    }

    /// A chain that packets come to by themselves; the policy of one that exists stays as it is.
    pub const fn base(id: ChainId, kind: BaseChainType, hook: Hook, priority: i32) -> Self {
        Self { id, base: Some(BaseChain { kind, hook, priority, policy: None }), comment: None }
    }
}

impl fmt::Display for BaseChainType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nat => "nat",
            Self::Filter => "filter",
        })
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accept => "accept",
            Self::Drop => "drop",
        })
    }
}

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
