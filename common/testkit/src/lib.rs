//! Machines in memory, for tests alone: no crate depends on this one but to test.
//!
//! [`FakeHost`] is a whole machine behind `cni_plugin::host::Host`, with the semantics of the real one as far
//! as plans can tell: what is taken is refused, what is gone is gone with all that was in it, and a step that
//! fails changes nothing. It can fail at a given step. [`lifecycle`] puts a plugin through its commands.
#![forbid(unsafe_code)]

mod daemon;
mod devices;
mod firewalld;
mod host;
mod iptables;
pub mod lifecycle;
mod netfilter;
mod nftables;
mod records;
mod request;

pub use daemon::{Answering, FakeDaemon};
pub use devices::FakeDevices;
pub use firewalld::FakeFirewalld;
pub use host::{FakeContainer, FakeHost, REFUSAL};
pub use iptables::FakeIptables;
pub use netfilter::FakeNetfilter;
pub use nftables::FakeNftables;
pub use records::FakeRecords;
pub use request::{Caller, attachment, request, told};
