//! Messages to and from nf_tables.
//!
//! A rule is compiled to the instructions that `nft` would write for it, and decoded from those that any program
//! wrote. [`xt`] does the same for the rules of iptables-nft.

pub mod compile;
mod decompile;
pub mod instruction;
pub mod listing;
pub mod message;
pub mod trace;
pub mod xt;
