//! A rule as it was found.

use super::name::{NftComment, NftName};
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
    /// A rule that is known to be there under a number.
    pub fn of(rule: &NftRule, handle: u64) -> Self {
        let comment = rule.comment.as_ref().map(ToString::to_string);
        Self { handle, comment, expressions: Some(rule.expressions.clone()) }
    }

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

    /// How it reads in a listing of a table of a family; `None` for a rule that holds a part without a type here.
    pub(super) fn text(&self, family: TableFamily) -> Option<RuleText> {
        let parts = self.expressions.as_deref()?;
        Some(RuleText { comment: self.comment.clone(), parts: render::text(family, parts) })
    }

    /// Whether this is a rule, as it reads in a listing.
    pub fn is(&self, rule: &NftRule) -> bool {
        self.comment.as_deref() == rule.comment.as_ref().map(NftComment::as_str)
            && self.text(rule.chain.table.family).is_some_and(|text| text == RuleText::of(rule))
    }
}

/// A rule as it reads in a listing of its chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RuleText {
    comment: Option<String>,
    parts: String,
}

impl RuleText {
    /// How a rule that is made will read.
    pub(super) fn of(rule: &NftRule) -> Self {
        let comment = rule.comment.as_ref().map(ToString::to_string);
        Self { comment, parts: render::text(rule.chain.table.family, &rule.expressions) }
    }
}
