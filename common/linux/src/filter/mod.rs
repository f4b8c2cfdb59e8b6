//! The machine's packet filter, behind [`cni_core::firewall::Tables`].
//!
//! [`RestoreTables`] works through the programs of iptables, whichever flavour the host has, and
//! [`HostTables`] without them where it can. They decide nothing: what to write and what to do when it does
//! not fit is the business of `cni_core::firewall`.

mod holder;
mod host;
mod lock;
mod program;
mod restore;

pub use host::HostTables;
pub(crate) use program::find;
pub use restore::RestoreTables;
