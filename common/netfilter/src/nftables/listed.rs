//! A rule as it was found.

use super::name::NftName;
use super::object::TableFamily;
use super::render;
use super::rule::{Direction, Expression, Is, NftRule};
use cni_core::names::IfName;

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
