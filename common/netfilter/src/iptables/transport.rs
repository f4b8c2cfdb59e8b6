//! The trait between decisions about iptables and the machine: changes of one table that take effect together or not at all, and their
//! text for `iptables-restore`.

use std::any::Any;

use cni_core::error::Code;
use cni_core::family::Family;
use cni_core::names::ChainName;

use super::rule::{IptablesRule, IptablesTable};
use crate::error::{NetfilterError, NetfilterErrorKind};

/// One line of a batch. The semantics are those of `iptables-restore --noflush`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchLine {
    /// `-C`: the rule must exist. Alone it changes nothing, in a batch it is a condition for the rest.
    Require(IptablesRule),
    /// `-N`: makes a chain, which must not exist.
    CreateChain(ChainName),
    /// `:CHAIN`: empties a chain, or makes it.
    EmptyChain(ChainName),
    /// `-X`: removes a chain, which must exist, be empty, and have no jump leading to it.
    DeleteChain(ChainName),
    /// `-I`: adds a rule in front of all others.
    Insert(IptablesRule),
    /// `-A`: adds a rule after all others.
    Append(IptablesRule),
    /// `-D`: removes the first copy of a rule, which must exist.
    Delete(IptablesRule),
}

impl BatchLine {
    /// The rule that the line requires or deletes.
    pub const fn existing_rule(&self) -> Option<&IptablesRule> {
        if let Self::Require(rule) | Self::Delete(rule) = self { Some(rule) } else { None }
    }

    /// The chain that the line makes or empties.
    pub const fn filled_chain(&self) -> Option<&ChainName> {
        if let Self::CreateChain(chain) | Self::EmptyChain(chain) = self { Some(chain) } else { None }
    }

    fn text(&self) -> String {
        match self {
            Self::Require(rule) => format!("-C {}", rule.specification()),
            Self::CreateChain(chain) => format!("-N {chain}"),
            Self::EmptyChain(chain) => format!(":{chain} - [0:0]"),
            Self::DeleteChain(chain) => format!("-X {chain}"),
            Self::Insert(rule) => format!("-I {}", rule.specification()),
            Self::Append(rule) => format!("-A {}", rule.specification()),
            Self::Delete(rule) => format!("-D {}", rule.specification()),
        }
    }
}

/// Changes to one table of one family, in order, atomic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub family: Family,
    pub table: IptablesTable,
    /// The changes.
    pub ops: Vec<BatchLine>,
}

impl Batch {
    /// Whether the batch adds nothing.
    pub fn only_removes(&self) -> bool {
        let adds =
            |op: &BatchLine| matches!(op, BatchLine::CreateChain(_) | BatchLine::Insert(_) | BatchLine::Append(_));
        !self.ops.iter().any(adds)
    }

    /// The input of `iptables-restore --noflush`.
    ///
    /// # Errors
    /// For a rule whose words do not fit on one line.
    pub fn text(&self) -> Result<String, NetfilterError> {
        let mut text = format!("*{}\n", self.table);
        for op in &self.ops {
            let line = op.text();
            if line.contains(['\n', '\r', '\0']) {
                let text = format!("a rule of the packet filter holds a line break: {line:?}");
                return Err(NetfilterError::new(NetfilterErrorKind::Other, Code::InvalidConfig, text, ""));
            }
            text.push_str(&line);
            text.push('\n');
        }
        text.push_str("COMMIT\n");
        Ok(text)
    }
}

/// The rules of a chain in order; `None` if there is no such chain.
pub type ChainRules = Option<Vec<IptablesRule>>;

/// The packet filter of the network namespace that the plugin runs in.
pub trait Iptables {
    /// Reads a chain. One of the table's own is missing until it is used, where that can be seen.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn list(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainRules, NetfilterError>;

    /// The copies of some rules of a chain with their positions, counted from 0; other rules may be among them.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn find(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
        _rules: &[&IptablesRule],
    ) -> Result<Vec<(usize, IptablesRule)>, NetfilterError> {
        Ok(self.list(family, table, chain)?.unwrap_or_default().into_iter().enumerate().collect())
    }

    /// Carries out a batch, completely or not at all.
    ///
    /// # Errors
    /// [`NetfilterErrorKind::Refused`](crate::NetfilterErrorKind::Refused) if a line does not fit what exists.
    fn commit(&mut self, batch: &Batch) -> Result<(), NetfilterError>;

    /// Why a table certainly cannot hold rules: there is no program, or the kernel does not have the table. `None` if the table
    /// can be read, and also if that fails for a reason that may pass, such as a lock. A program is started only if nothing else tells.
    fn absence(&mut self, family: Family, table: IptablesTable) -> Option<NetfilterError>;

    /// Keeps other plugins from changing what containers share, until the value is dropped.
    ///
    /// # Errors
    /// [`NetfilterErrorKind::Locked`](crate::NetfilterErrorKind::Locked) when another holds the lock for too long.
    fn lock(&mut self) -> Result<SharedChainsLock, NetfilterError>;
}

/// The lock around what containers share, until it is dropped.
#[derive(Debug)]
pub struct SharedChainsLock {
    /// Whether another process held the lock at first, and may have made what was missing.
    pub has_waited: bool,
    /// What is released when it is dropped.
    pub held: Box<dyn Any>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iptables::rule::{Match, Target};

    #[test]
    fn a_batch_is_one_transaction() {
        let chain = ChainName::fixed("CNI-X");
        let rule = IptablesRule::new(chain.clone(), Vec::new(), Target::Return);
        let ops = vec![
            BatchLine::Require(rule.clone()),
            BatchLine::EmptyChain(chain.clone()),
            BatchLine::Append(rule),
            BatchLine::DeleteChain(chain),
        ];
        let batch = Batch { family: Family::V4, table: IptablesTable::Nat, ops };
        let text = batch.text().expect("text");
        assert_eq!(text, "*nat\n-C CNI-X -j RETURN\n:CNI-X - [0:0]\n-A CNI-X -j RETURN\n-X CNI-X\nCOMMIT\n");
    }

    #[test]
    fn words_cannot_smuggle_a_line_into_a_batch() {
        let words = vec!["-s".to_owned(), "10.0.0.1\n-F FORWARD".to_owned()];
        let rule = IptablesRule::new(ChainName::fixed("CNI-X"), vec![Match::Raw(words)], Target::Accept);
        let batch = Batch { family: Family::V4, table: IptablesTable::Nat, ops: vec![BatchLine::Append(rule)] };
        let error = batch.text().expect_err("refused");
        assert_eq!(
            error.to_string(),
            r#"a rule of the packet filter holds a line break: "-A CNI-X -s \"10.0.0.1\n-F FORWARD\" -j ACCEPT""#
        );
    }
}
