//! The packet filter: a rule as a value, its text, and the changes that plugins want, carried out over
//! the small trait [`Iptables`].
//!
//! [`IptablesRule`] is what `iptables -S` prints, typed. [`IptablesRuleset`] and [`IptablesRemoval`] say what
//! a plugin wants of one family and table; [`ensure`], [`remove`] and [`missing`] carry it out, with one batch
//! in the common case. What a batch does to a machine is decided by the implementation of [`Iptables`].

mod backend;
mod batch;
mod canonical;
mod change;
mod ensure;
mod error;
mod missing;
mod owned;
mod parse;
mod place;
mod remove;
mod render;
mod rule;
mod seen;
mod stale;

pub use backend::{Iptables, SkeletonLock};
pub use batch::{Batch, BatchLine};
pub use change::{
    ExistingChain, IptablesRemoval, IptablesRuleset, IptablesUndo, Jumps, OwnedChain, OwnedChainRef, Place, SharedRule,
};
pub use ensure::{ensure, undo};
pub use error::{BatchError, IptablesError, Refusal};
pub use missing::missing;
pub use remove::remove;
pub use rule::{IptablesRule, IptablesTable, Mark, Match, PortRange, PortSet, Target, UidRange};
pub use stale::stale;
