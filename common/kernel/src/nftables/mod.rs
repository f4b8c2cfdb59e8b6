//! Messages to and from nf_tables.
//!
//! A rule is compiled to the instructions that `nft` would write for it, and read back from those that any program
//! wrote. [`xt`] does the same for rules as iptables-nft writes them.

#[cfg(feature = "fuzz")]
pub mod bytes;
pub mod compile;
mod decompile;
pub mod instruction;
pub mod listing;
pub mod message;
pub mod request;
pub mod set;
pub mod xt;
