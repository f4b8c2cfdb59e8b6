//! The seam between what is wanted of nf_tables and the machine.

use std::net::IpAddr;

use super::change::Which;
use super::error::{NftablesError, TransactionError};
use super::name::NftName;
use super::object::{ChainId, TableFamily};
use super::render;
use super::rule::{Direction, Expression, Is, NftRule};
use super::set::SetElements;
use super::transaction::{Generation, Transaction};
use cni_core::names::IfName;

/// The nf_tables of the network namespace that the plugin runs in.
pub trait Nftables {
    /// The rules of a chain in order; `None` when the chain does not exist.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NftablesError>;

    /// Those rules of a chain that are meant, in order; `None` when the chain does not exist. It need not be read whole.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn find(&mut self, chain: &ChainId, meant: &[Which]) -> Result<Option<Vec<ListedRule>>, NftablesError> {
        let is_meant = |rule: &ListedRule| meant.iter().any(|which| which.means(rule));
        Ok(self.list(chain)?.map(|rules| rules.into_iter().filter(is_meant).collect()))
    }

    /// Which of some addresses a set holds; `None` when the set does not exist.
    ///
    /// # Errors
    /// When the set cannot be read, which is never treated as absence.
    fn held(&mut self, elements: &SetElements) -> Result<Option<Vec<IpAddr>>, NftablesError>;

    /// The state that everything is in.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn generation(&mut self) -> Result<Generation, NftablesError>;

    /// Carries out a transaction, all of it or nothing.
    ///
    /// # Errors
    /// [`TransactionError::Refused`] when one of its changes does not fit what is there, or when there has been
    /// a change since the state that it is bound to.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), TransactionError>;
}

/// A rule as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRule {
    /// Its number in its table.
    pub handle: u64,
    /// Who owns it.
    pub comment: Option<String>,
    /// Its parts; `None` for a rule that holds one which has no type here.
    pub expressions: Option<Vec<Expression>>,
}

impl ListedRule {
    /// The chains that packets enter by this rule.
    pub fn leads_to(&self) -> impl Iterator<Item = &NftName> {
        self.expressions.iter().flatten().filter_map(Expression::leads_to)
    }

    /// The link by which packets come in that the rule is for.
    pub fn incoming_interface(&self) -> Option<&IfName> {
        let mut parts = self.expressions.iter().flatten();
        parts.find_map(
            |part| if let Expression::Interface(Direction::In, Is::Equal, name) = part { Some(name) } else { None },
        )
    }

    /// Whether this is a rule, as it reads in a listing.
    pub fn is(&self, rule: &NftRule) -> bool {
        let family = rule.chain.table.family;
        self.comment.as_deref() == rule.comment.as_ref().map(super::NftComment::as_str)
            && self.expressions.as_ref().is_some_and(|found| same(family, found, &rule.expressions))
    }
}

fn same(family: TableFamily, found: &[Expression], wanted: &[Expression]) -> bool {
    render::text(family, found) == render::text(family, wanted)
}
