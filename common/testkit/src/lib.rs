//! Machines in memory, for tests alone: no crate depends on this one but to test.
#![forbid(unsafe_code)]

mod iptables;
mod nftables;

pub use iptables::FakeIptables;
pub use nftables::FakeNftables;
