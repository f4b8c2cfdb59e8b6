//! The packet filter: rules as values and the changes that plugins want, for iptables, for nf_tables in its own
//! terms, and for firewalld. It decides; what reads and changes a machine stands behind small traits.
#![forbid(unsafe_code)]

pub mod firewalld;
pub mod flows;
pub mod iptables;
pub mod nftables;
mod phrases;
mod proto;

pub use phrases::without_swallowed_phrases;
pub use proto::Proto;
