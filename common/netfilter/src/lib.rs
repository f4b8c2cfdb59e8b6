//! Packet filters: rules as values, and the changes that plugins want, for iptables, nf_tables and firewalld. This
//! crate decides; small traits read and change a host.
//!
//! [`Ruleset`] and [`RuleRemoval`] say what a plugin wants of either back end; [`Backend`] says which one holds the
//! rules.
#![forbid(unsafe_code)]

use std::fmt;

mod backend;
mod error;
pub mod firewalld;
pub mod flows;
pub mod iptables;
pub mod nftables;
mod ruleset;

pub use backend::{Backend, Netfilter, unless_absent};
pub use error::{NetfilterError, NetfilterErrorKind, advised, without_swallowed_phrases};
pub use ruleset::{MissingRule, ReplacementUndo, RulePosition, RuleRemoval, RuleUndo, Ruleset};

/// A transport protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proto {
    Tcp,
    Udp,
    Sctp,
    Dccp,
}

impl Proto {
    /// Every protocol.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Sctp, Self::Dccp];

    /// Reads a protocol's name in any case; `None` for one that the port matches do not know.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proto| proto.as_str().eq_ignore_ascii_case(name))
    }

    /// The name of the protocol, which is also that of its match extension.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Dccp => "dccp",
        }
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
