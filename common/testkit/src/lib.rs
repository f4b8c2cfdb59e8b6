//! Machines in memory, for tests only.
//!
//! [`FakeHost`] implements `cni_plugin::host::Host` with the semantics of the kernel, as far as plans depend on them:
//! a taken name is refused, an object is deleted with everything in it, and a failed step changes nothing. It can fail
//! at a given step. [`lifecycle`] tests a plugin with all its commands.
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
pub use request::{Caller, attachment, error_parts, request};
