//! nf_tables in its own terms: tables, chains and rules as values, their text, and the changes that
//! plugins want, carried out over the small trait [`Nftables`].
//!
//! [`NftRule`] is what `nft list ruleset` prints, typed. [`NftRuleset`] and [`NftRemoval`] say what a plugin
//! wants; [`ensure`], [`remove`] and [`missing`] carry it out, each with one transaction. The rules of an
//! attachment are known by their comment, as those of the reference plugins are. What a transaction does
//! to a machine is decided by the implementation of [`Nftables`].

mod backend;
mod change;
mod ensure;
mod error;
mod listed;
mod missing;
mod name;
mod object;
mod remove;
mod render;
mod rule;
mod seen;
mod set;
mod transaction;

pub use backend::Nftables;
pub use change::{
    Content, ExistingRules, MeantRules, NftRemoval, NftRuleset, NftUndo, Owned, Tag, Unwanted, WantedChain, Which,
};
pub use ensure::{ensure, undo};
pub use error::{BoxError, NftablesError, TransactionError};
pub use listed::ListedRule;
pub use missing::{missing, missing_elements};
pub use name::{NftComment, NftName, WordError};
pub use object::{Base, ChainId, Hook, Kind, NftChain, NftTable, Policy, TableFamily, TableId};
pub use remove::remove;
pub use render::text;
pub use rule::{Direction, End, Expression, Is, NftRule, Verdict};
pub use set::{Set, SetElements, SetId};
pub use transaction::{Generation, NftChange, Transaction};
