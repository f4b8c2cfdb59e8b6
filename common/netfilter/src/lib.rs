//! Packet filters: rules as values, and the changes that plugins want, for iptables, nf_tables and firewalld. This
//! crate decides; small traits read and change a host.
//!
//! [`Ruleset`] and [`RuleRemoval`] say what a plugin wants of either back end; [`Backend`] says which one holds the
//! rules.
#![forbid(unsafe_code)]

mod backend;
mod error;
pub mod firewalld;
pub mod flows;
pub mod iptables;
pub mod nftables;
mod position;
mod ruleset;

pub use backend::{Backend, Netfilter, unless_absent};
pub use error::{NetfilterError, NetfilterErrorKind, advised, without_swallowed_phrases};
pub use flows::Proto;
pub use position::{ReplacementUndo, RulePosition};
pub use ruleset::{MissingRule, RuleRemoval, RuleUndo, Ruleset};
