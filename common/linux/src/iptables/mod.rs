//! Implements [`cni_netfilter::iptables::Iptables`] for the machine's packet filter.
//!
//! [`RestoreIptables`] uses the programs of either flavour of iptables; [`AutoIptables`] avoids them where it can.
//! They decide nothing: `cni_netfilter::iptables` decides what to write, and what to do if the kernel refuses it.

mod auto;
mod native;
mod program;
mod restore;

pub use auto::AutoIptables;
pub use restore::RestoreIptables;
