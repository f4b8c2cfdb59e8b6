//! nf_tables: tables, chains and rules as values, their text, and the changes that plugins want, carried out through
//! the trait [`Nftables`].
//!
//! An [`NftRule`] is a rule of `nft list ruleset` as a value. [`NftRuleset`] and [`NftRemoval`] say what a plugin
//! wants; [`ensure`], [`remove`] and [`missing`] carry it out, each with one transaction. As in the reference, a
//! comment names the owner of a rule. The implementation of [`Nftables`] decides what a transaction does to a machine.

mod change;
mod ensure;
mod listed;
mod name;
mod object;
mod rule;
mod seen;
mod transport;

pub use change::{
    ChainContent, ExistingRules, NftRemoval, NftRuleset, NftUndo, OwnedRules, RuleSelection, RuleTag, UnwantedNftRules,
    WantedChain, WantedRules,
};
pub use ensure::{ensure, remove};
pub use listed::{ListedRule, RuleText};
pub use name::{NftComment, NftName};
pub use object::{
    BaseChain, BaseChainType, ChainId, Hook, NftChain, NftTable, Policy, Set, SetElements, SetId, TableFamily, TableId,
};
pub use rule::{Direction, Equality, Expression, NftRule, PacketEnd, Verdict};
pub use seen::{Nftables, missing, missing_elements};
pub use transport::{Generation, NftChange, Transaction};
