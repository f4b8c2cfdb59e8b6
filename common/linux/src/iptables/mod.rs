//! The machine's packet filter, behind [`cni_netfilter::iptables::Iptables`].
//!
//! [`RestoreIptables`] works through the programs of iptables, whichever flavour the host has, and
//! [`AutoIptables`] without them where it can. They decide nothing: what to write and what to do when it does
//! not fit is the business of `cni_netfilter::iptables`.

mod auto;
mod lock;
mod native;
mod program;
mod restore;

pub use auto::AutoIptables;
pub use restore::RestoreIptables;
