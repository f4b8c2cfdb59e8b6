//! A rule from a listing.

use super::name::{NftComment, NftName};
use super::object::{ChainId, TableFamily};
use super::rule::{Direction, Equality, Expression, NftRule, text};
use cni_core::names::IfName;

/// A rule as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRule {
    /// Its number in its table.
    pub handle: u64,
    /// The owner.
    pub comment: Option<String>,
    /// Its parts; `None` for a rule that holds one which has no type here.
    pub expressions: Option<Vec<Expression>>,
}

impl ListedRule {
    /// The rule as it can be made again in a chain; `None` for one that holds a part without a type here.
    pub fn to_rule(&self, chain: &ChainId) -> Option<NftRule> {
        let rule = NftRule::new(chain.clone(), self.expressions.clone()?);
        match self.comment.as_deref() {
            Some(comment) => Some(rule.with_comment(NftComment::parse(comment).ok()?)),
            None => Some(rule),
        }
    }

    /// The chains that packets enter by this rule.
    pub fn leads_to(&self) -> impl Iterator<Item = &NftName> {
        self.expressions.iter().flatten().filter_map(Expression::leads_to)
    }

    /// The link by which packets come in that the rule is for.
    pub fn incoming_interface(&self) -> Option<&IfName> {
        let mut parts = self.expressions.iter().flatten();
        parts.find_map(|part| {
            if let Expression::Interface(Direction::In, Equality::Equal, name) = part { Some(name) } else { None }
        })
    }

    /// The text of the rule in a listing of a table of a family; `None` for a rule with a part that has no type here.
    pub fn text(&self, family: TableFamily) -> Option<RuleText> {
        let parts = self.expressions.as_deref()?;
        Some(RuleText { comment: self.comment.clone(), parts: text(family, parts) })
    }

    /// Whether this is the given rule, by its text in a listing.
    pub fn is(&self, rule: &NftRule) -> bool {
        self.comment.as_deref() == rule.comment.as_ref().map(NftComment::as_str)
            && self.text(rule.chain.table.family).is_some_and(|text| text == RuleText::of(rule))
    }

    /// Whether this is the given rule with a user's own words, as the kernel has it: the same owner and the same other
    /// parts in the same places, and any parts in place of the words, since `nft` prints them in its own spelling.
    pub(super) fn is_in_other_words(&self, rule: &NftRule) -> bool {
        let (Some(found), wanted) = (self.expressions.as_deref(), rule.expressions.as_slice()) else { return false };
        let is_words = |part: &Expression| matches!(part, Expression::Raw(_));
        let Some((first, last)) = wanted.iter().position(is_words).zip(wanted.iter().rposition(is_words)) else {
            return false;
        };
        let (before, behind) = (&wanted[..first], &wanted[last + 1..]);
        let begins = found.iter().zip(before).all(|(found, wanted)| is_same(found, wanted));
        let ends = found.iter().rev().zip(behind.iter().rev()).all(|(found, wanted)| is_same(found, wanted));
        self.comment.as_deref() == rule.comment.as_ref().map(NftComment::as_str)
            && found.len() > before.len() + behind.len()
            && begins
            && ends
    }
}

/// Whether two parts are the same in the kernel, which clears host bits.
fn is_same(one: &Expression, other: &Expression) -> bool {
    match (one, other) {
        (Expression::Address(end, is, cidr), Expression::Address(other_end, other_is, other_cidr)) => {
            (end, is, cidr.network()) == (other_end, other_is, other_cidr.network())
        }
        (one, other) => one == other,
    }
}

/// A rule as it reads in a listing of its chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleText {
    comment: Option<String>,
    parts: String,
}

impl RuleText {
    /// The text of a new rule in a listing.
    pub fn of(rule: &NftRule) -> Self {
        let comment = rule.comment.as_ref().map(ToString::to_string);
        Self { comment, parts: text(rule.chain.table.family, &rule.expressions) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::{ChainId, TableId};
    use super::super::rule::{PacketEnd, Verdict};
    use super::*;
    use crate::flows::Proto;
    use cni_core::cidr::Cidr;
    use cni_core::family::Family;

    fn chain() -> ChainId {
        TableId::fixed(Family::V4.into(), "t").chain("c")
    }

    fn from(cidr: &str) -> Expression {
        Expression::Address(PacketEnd::Source, Equality::Equal, cidr.parse::<Cidr>().expect("a network"))
    }

    /// A rule of port 80 from a network, with somebody's condition before the port.
    fn rule(condition: Vec<Expression>) -> NftRule {
        let port = [Expression::Port(Proto::Tcp, 80), Expression::Verdict(Verdict::Accept)];
        NftRule::new(chain(), [from("10.0.0.1/8")].into_iter().chain(condition).chain(port).collect())
    }

    fn listed(rule: &NftRule) -> ListedRule {
        let comment = rule.comment.as_ref().map(ToString::to_string);
        ListedRule { handle: 1, comment, expressions: Some(rule.expressions.clone()) }
    }

    #[test]
    fn only_the_words_may_differ() {
        let wanted = rule(vec![Expression::Raw(vec!["ip saddr 192.0.2.1/32".to_owned()])]);
        let owned = |rule: NftRule| rule.with_comment(NftComment::cut("ctr1"));
        let is = |found: NftRule| listed(&found).is_in_other_words(&wanted);
        assert!(is(rule(vec![from("192.0.2.1/32")])));
        assert!(is(rule(vec![from("192.0.2.1/32"), Expression::LocalDestination])));
        assert!(!is(rule(Vec::new())));
        assert!(!is(owned(rule(vec![from("192.0.2.1/32")]))));
        let differing: [(usize, Expression); 3] =
            [(0, from("11.0.0.0/8")), (2, Expression::Port(Proto::Tcp, 81)), (3, Expression::Verdict(Verdict::Drop))];
        for (at, part) in differing {
            let mut found = rule(vec![from("192.0.2.1/32")]);
            found.expressions[at] = part;
            assert!(!is(found), "{at}");
        }
        let mut found = rule(vec![from("192.0.2.1/32")]);
        found.expressions.pop();
        assert!(!is(found));
        // Where a rule has no words, only its own text counts.
        assert!(!listed(&rule(vec![from("192.0.2.1/32")])).is_in_other_words(&rule(Vec::new())));
    }
}
