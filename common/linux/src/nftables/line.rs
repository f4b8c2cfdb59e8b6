//! A rule as one line of a cache file: its comment, its jump target, and a digest of its text.

use std::collections::{BTreeSet, HashMap};

use cni_core::names::hash_hex;
use cni_netfilter::nftables::{Expression, ListedRule, NftRule, RuleSelection, RuleTag, TableFamily, text};

/// The line of a listed rule. If the rule has a part without a type here, the line has only its comment.
pub(super) fn of_listed(family: TableFamily, rule: &ListedRule) -> String {
    line(family, rule.comment.as_deref(), rule.expressions.as_deref())
}

/// The line of a rule that is made.
pub(super) fn of_rule(rule: &NftRule) -> String {
    let comment = rule.comment.as_ref().map(ToString::to_string);
    line(rule.chain.table.family, comment.as_deref(), Some(&rule.expressions))
}

/// Rules that are looked for among lines.
pub(super) struct WantedLines<'a> {
    tags: Vec<&'a RuleTag>,
    lines: HashMap<String, &'a NftRule>,
    /// The comments of the lines, usually one: other containers' rules are recognised by their comment.
    comments: BTreeSet<String>,
}

impl<'a> WantedLines<'a> {
    pub(super) fn new(meant: &'a [RuleSelection]) -> Self {
        let (mut tags, mut lines) = (Vec::new(), HashMap::new());
        for which in meant {
            match which {
                RuleSelection::Tagged(tag) => tags.push(tag),
                RuleSelection::Listed(rules) => lines.extend(rules.iter().map(|rule| (of_rule(rule), rule))),
            }
        }
        let comments = lines.keys().map(|line: &String| comment_of(line).to_owned()).collect();
        Self { tags, lines, comments }
    }

    /// Whether the rule of a line is among them.
    pub(super) fn hold(&self, line: &str) -> bool {
        self.rule(line).is_some() || self.tags.iter().any(|tag| is_on(tag, line))
    }

    /// The rule of a line, if it is looked for by all that it says.
    pub(super) fn rule(&self, line: &str) -> Option<&'a NftRule> {
        if !self.comments.iter().any(|comment| comment_of(line) == comment) {
            return None;
        }
        self.lines.get(line).copied()
    }
}

/// The comment of a line.
fn comment_of(line: &str) -> &str {
    line.split_once('\t').map_or(line, |(comment, _)| comment)
}

fn is_on(tag: &RuleTag, line: &str) -> bool {
    let (comment, rest) = line.split_once('\t').unwrap_or((line, ""));
    let leads_to = rest.split_once('\t').map_or("", |(leads_to, _)| leads_to);
    match tag {
        RuleTag::Exactly(tag) => comment == quoted(tag.as_str()),
        RuleTag::Begins(start) => comment.starts_with(&quoted(start)),
        RuleTag::LeadsTo(chain) => leads_to.split(' ').any(|name| name == chain.as_str()),
        RuleTag::LeadsNowhere(tag) => leads_to.is_empty() && comment == quoted(tag.as_str()),
    }
}

/// The number of hexadecimal digits of SHA-512 that replace a longer text: 128 bits. The rules of 1000 containers are
/// long, and each call reads and writes them again.
const DIGITS: usize = 32;

fn digest(text: String) -> String {
    if text.len() <= DIGITS {
        return text;
    }
    let mut digest = hash_hex(&text);
    digest.truncate(DIGITS);
    digest
}

fn line(family: TableFamily, comment: Option<&str>, expressions: Option<&[Expression]>) -> String {
    let leads_to = expressions.unwrap_or_default().iter().filter_map(Expression::leads_to);
    let leads_to: Vec<&str> = leads_to.map(|name| name.as_str()).collect();
    let text = expressions.map_or_else(|| "?".to_owned(), |parts| digest(text(family, parts)));
    format!("{}\t{}\t{text}", comment.map(quoted).unwrap_or_default(), leads_to.join(" "))
}

/// A comment between other words; its beginning is that of a longer one's.
fn quoted(comment: &str) -> String {
    format!("\"{}", comment.escape_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_netfilter::Proto;
    use cni_netfilter::nftables::{ChainId, NftComment, NftName, TableId, Verdict, WantedRules};
    use proptest::prelude::*;

    fn chain() -> ChainId {
        TableId::fixed(TableFamily::Ip, "t").chain("c")
    }

    fn comment() -> impl Strategy<Value = String> {
        prop_oneof!["[a-c\t\"\\\\ü ]{0,4}", "[ -~]{0,20}"]
    }

    fn rule() -> impl Strategy<Value = NftRule> {
        let parts = prop_oneof![
            (1_u16..4).prop_map(|port| Expression::Port(Proto::Tcp, port)),
            Just(Expression::Verdict(Verdict::Accept)),
            "[ab]{1,2}".prop_map(|name| Expression::Verdict(Verdict::Jump(NftName::parse(&name).expect("a name")))),
        ];
        (proptest::collection::vec(parts, 0..3), proptest::option::of(comment())).prop_map(|(parts, comment)| {
            let rule = NftRule::new(chain(), parts);
            match comment.and_then(|comment| NftComment::parse(&comment).ok()) {
                Some(comment) => rule.with_comment(comment),
                None => rule,
            }
        })
    }

    fn which() -> impl Strategy<Value = RuleSelection> {
        let tag = prop_oneof![
            comment().prop_filter_map("a comment", |text| NftComment::parse(&text).ok().map(RuleTag::Exactly)),
            comment().prop_filter_map("a comment", |text| NftComment::parse(&text).ok().map(RuleTag::LeadsNowhere)),
            comment().prop_map(RuleTag::Begins),
            "[ab]{1,2}".prop_map(|name| RuleTag::LeadsTo(NftName::parse(&name).expect("a name"))),
        ];
        prop_oneof![
            tag.prop_map(RuleSelection::Tagged),
            proptest::collection::vec(rule(), 0..3).prop_map(RuleSelection::Listed)
        ]
    }

    proptest! {
        #[test]
        fn a_line_is_meant_as_its_rule_is(rule in rule(), which in which(), known: bool) {
            let listed = ListedRule {
                handle: 1,
                comment: rule.comment.as_ref().map(ToString::to_string),
                expressions: known.then(|| rule.expressions.clone()),
            };
            let line = of_listed(TableFamily::Ip, &listed);
            let meant = WantedRules::new([&which]).hold(TableFamily::Ip, &listed);
            prop_assert_eq!(WantedLines::new(&[which]).hold(&line), meant, "{:?}", line);
            prop_assert!(!line.contains('\n'));
            if known {
                prop_assert_eq!(line, of_rule(&rule));
            }
        }
    }
}
