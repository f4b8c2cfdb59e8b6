//! Changes that take effect together or not at all, and their text for `nft -f`.

use std::fmt::Write as _;

use cni_core::error::Code;

use super::object::{BaseChain, ChainId, NftChain, NftTable, Set, SetElements};
use super::rule::NftRule;
use crate::error::{NetfilterError, NetfilterErrorKind};

/// One change. Those that add a table, a chain or a set accept one that exists already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NftChange {
    /// Makes a table.
    AddTable(NftTable),
    /// Makes a chain, or sets the policy of one that exists.
    AddChain(NftChain),
    /// Makes a set, without elements.
    AddSet(Set),
    /// Puts elements into a set; those that it holds already stay.
    AddElements(SetElements),
    /// Takes elements out of a set, which must hold them.
    DeleteElements(SetElements),
    /// Takes all rules out of a chain, which must exist.
    FlushChain(ChainId),
    /// Deletes a chain and its rules. It must exist, and no rule may jump to it.
    DeleteChain(ChainId),
    /// Adds a rule after all others of its chain, which must exist.
    AddRule(NftRule),
    /// Removes a rule, which must exist.
    DeleteRule(ChainId, u64),
}

/// Changes in order, atomic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub ops: Vec<NftChange>,
    /// The generation that the transaction is bound to: nothing may have changed since. `nft` does not support this, so
    /// a transaction with a user's own words is not bound.
    pub since: Option<Generation>,
}

/// The number of a state of all nf_tables of a network namespace: each transaction makes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub u32);

impl From<Vec<NftChange>> for Transaction {
    fn from(ops: Vec<NftChange>) -> Self {
        Self { ops, since: None }
    }
}

impl Transaction {
    /// Whether it deletes rules, which it names by their handles.
    pub fn deletes_by_handle(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, NftChange::DeleteRule(..)))
    }

    /// The input of `nft -f`.
    ///
    /// # Errors
    /// For a rule whose words would not stay part of one command.
    pub fn script(&self) -> Result<String, NetfilterError> {
        let mut script = String::new();
        for op in &self.ops {
            let line = op.command();
            if op.added_rule().is_some() && line.contains(['\n', '\r', '\0', ';', '#']) {
                let text = format!("a rule of nftables holds a line break, a semicolon or a number sign: {line:?}");
                return Err(NetfilterError::new(NetfilterErrorKind::Other, Code::InvalidConfig, text, ""));
            }
            script.push_str(&line);
            script.push('\n');
        }
        Ok(script)
    }
}

impl NftChange {
    /// The rule that it adds.
    pub const fn added_rule(&self) -> Option<&NftRule> {
        if let Self::AddRule(rule) = self { Some(rule) } else { None }
    }

    /// The change as a command of `nft`, on one line.
    pub fn command(&self) -> String {
        match self {
            Self::AddTable(NftTable { id, comment: None }) => format!("add table {id}"),
            Self::AddTable(NftTable { id, comment: Some(comment) }) => {
                format!("add table {id} {{ comment \"{comment}\" ; }}")
            }
            Self::AddChain(chain) => add_chain(chain),
            Self::AddSet(set) => format!("add set {} {{ type {} ; }}", set.id, set.type_name()),
            Self::AddElements(elements) => format!("add element {elements}"),
            Self::DeleteElements(elements) => format!("delete element {elements}"),
            Self::FlushChain(chain) => format!("flush chain {chain}"),
            Self::DeleteChain(chain) => format!("delete chain {chain}"),
            Self::AddRule(rule) => format!("add rule {} {rule}", rule.chain),
            Self::DeleteRule(chain, handle) => format!("delete rule {chain} handle {handle}"),
        }
    }
}

fn add_chain(chain: &NftChain) -> String {
    let NftChain { id, base, comment } = chain;
    let mut block = String::new();
    if let Some(BaseChain { kind, hook, priority, policy }) = base {
        // Writing to a string cannot fail.
        let _ = write!(block, " type {kind} hook {hook} priority {priority} ;");
        if let Some(policy) = policy {
            let _ = write!(block, " policy {policy} ;");
        }
    }
    if let Some(comment) = comment {
        let _ = write!(block, " comment \"{comment}\" ;");
    }
    if block.is_empty() { format!("add chain {id}") } else { format!("add chain {id} {{{block} }}") }
}

#[cfg(test)]
mod tests;
