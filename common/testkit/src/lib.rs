//! Machines in memory, for tests alone: no crate depends on this one but to test.
#![forbid(unsafe_code)]

mod iptables;
mod netfilter;
mod nftables;

pub use iptables::FakeIptables;
pub use netfilter::{FakeNetfilter, FakePrograms};
pub use nftables::FakeNftables;
