//! iptables: rules as values, their text, and the changes of plugins, which are made through the trait [`Iptables`].
//!
//! An [`IptablesRule`] is a line of `iptables -S` as a value. [`IptablesRuleset`] and [`IptablesRemoval`] describe the
//! rules of a plugin in one family and table; [`ensure`], [`remove`] and [`missing`] add, remove or look for them, usually with
//! one batch.
//! The implementation of [`Iptables`] decides what a batch does to a machine.

mod change;
mod ensure;
mod missing;
mod parse;
mod remove;
mod render;
mod rule;
mod seen;
mod transport;

pub use change::{
    ExistingChain, IptablesRemoval, IptablesRuleset, IptablesUndo, JumpRemoval, OwnedChain, OwnedChainRef,
    RulePlacement, SharedRule,
};
pub use ensure::{ensure, is_unreached, undo};
pub use missing::missing;
pub use remove::{remove, stale};
pub use rule::{IptablesRule, IptablesTable, Mark, Match, PortRange, PortSet, Target, UidRange};
pub use transport::{Batch, BatchLine, ChainRules, Iptables, SharedChainsLock};
