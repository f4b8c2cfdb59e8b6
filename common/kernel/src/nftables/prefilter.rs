//! Passes over most rules of a listing without decoding them: decoding takes longer than everything else.
//!
//! The message of a rule contains its addresses, the names of the chains that it jumps to, and its comment. A rule whose
//! message lacks those of a wanted rule is another rule.

use cni_core::cidr::Cidr;
use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::{Equality, RuleSelection, RuleTag};

use super::compile::octets;
use super::listing::user_data;

/// The most marks that are looked for: more of them take longer than decoding.
const MOST: usize = 16;

/// Tells which messages may be of wanted rules.
#[derive(Debug)]
pub struct RulePrefilter(Vec<Mark>);

/// What the message of a wanted rule contains.
#[derive(Debug, PartialEq, Eq)]
enum Mark {
    /// These bytes, at a multiple of four, as attributes begin.
    Attribute(Vec<u8>),
    /// This text in the comment.
    Comment(String),
    /// Nothing known.
    Unknown,
}

impl RulePrefilter {
    /// For some rules of iptables.
    pub fn of_rules(rules: &[&IptablesRule]) -> Self {
        Self::of(rules.iter().map(|rule| mark_of_rule(&rule.canonical())))
    }

    /// For some rules of nf_tables.
    pub fn of_selections(selections: &[RuleSelection]) -> Self {
        let marks = selections.iter().flat_map(|selection| match selection {
            RuleSelection::Tagged(tag) => vec![mark_of_tag(tag)],
            RuleSelection::Listed(rules) => {
                let comments = rules.iter().map(|rule| rule.comment.as_ref().map(ToString::to_string));
                comments.map(|comment| comment.map_or(Mark::Unknown, Mark::Comment)).collect()
            }
        });
        Self::of(marks)
    }

    fn of(marks: impl Iterator<Item = Mark>) -> Self {
        let mut all = Vec::new();
        for mark in marks {
            if mark == Mark::Unknown || all.len() == MOST {
                return Self(vec![Mark::Unknown]);
            }
            if !all.contains(&mark) {
                all.push(mark);
            }
        }
        Self(all)
    }

    /// Whether a message may be of a wanted rule.
    pub fn passes(&self, payload: &[u8]) -> bool {
        self.0.iter().any(|mark| match mark {
            Mark::Attribute(bytes) => contains_attribute(payload, bytes),
            Mark::Comment(text) => user_data(payload).is_some_and(|data| contains(data, text.as_bytes())),
            Mark::Unknown => true,
        })
    }
}

/// An address has few rules, and a chain few jumps to it.
fn mark_of_rule(rule: &IptablesRule) -> Mark {
    if rule.has_words() {
        return Mark::Unknown;
    }
    let address = rule.matches.iter().find_map(|part| {
        if let Match::Address(_, Equality::Equal, cidr) = part {
            Some(*cidr).filter(|cidr| is_host(*cidr))
        } else {
            None
        }
    });
    if let Some(address) = address {
        Mark::Attribute(octets(address.address()))
    } else if let Target::Jump(chain) = &rule.target {
        Mark::Attribute(chain.as_str().into())
    } else {
        Mark::Unknown
    }
}

fn mark_of_tag(tag: &RuleTag) -> Mark {
    match tag {
        RuleTag::Exactly(comment) | RuleTag::LeadsNowhere(comment) => Mark::Comment(comment.to_string()),
        RuleTag::Begins(start) => Mark::Comment(start.clone()),
        RuleTag::LeadsTo(chain) => Mark::Attribute(chain.as_str().into()),
    }
}

fn is_host(cidr: Cidr) -> bool {
    cidr.prefix() == cidr.family().bits()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

fn contains_attribute(payload: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first_chunk::<4>() else { return contains(payload, part) };
    let (words, _) = payload.as_chunks::<4>();
    let mut places = words.iter().enumerate().filter(|(_, word)| *word == first).map(|(at, _)| 4 * at);
    places.any(|place| payload.get(place..).is_some_and(|rest| rest.starts_with(part)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nftables::{bytes, xt};
    use cni_netfilter::nftables::{Expression, NftComment, NftName, NftRule, TableFamily, TableId, Verdict};

    fn jump(to: &str, comment: &str) -> NftRule {
        let to = Expression::Verdict(Verdict::Jump(NftName::parse(to).expect("a name")));
        let rule = NftRule::new(TableId::fixed(TableFamily::Ip, "t").chain("c"), vec![to]);
        rule.with_comment(NftComment::parse(comment).expect("a comment"))
    }

    /// Which of two rules pass for a selection.
    fn passed(which: RuleSelection) -> [bool; 2] {
        let prefilter = RulePrefilter::of_selections(&[which]);
        let rules = [jump("dnat-1", "container 1"), jump("dnat-2", "container 2")];
        rules.map(|rule| prefilter.passes(&bytes::written(&rule).expect("written")))
    }

    #[test]
    fn rules_of_others_are_passed_over() {
        let comment = || NftComment::parse("container 1").expect("a comment");
        for tag in [
            RuleTag::Exactly(comment()),
            RuleTag::LeadsNowhere(comment()),
            RuleTag::LeadsTo(NftName::parse("dnat-1").expect("a name")),
        ] {
            assert_eq!(passed(RuleSelection::Tagged(tag.clone())), [true, false], "{tag:?}");
        }
        assert_eq!(passed(RuleSelection::Tagged(RuleTag::Begins("container".to_owned()))), [true, true]);
        assert_eq!(passed(RuleSelection::Listed(vec![jump("elsewhere", "container 1")])), [true, false]);
        let bare = NftRule::new(TableId::fixed(TableFamily::Ip, "t").chain("c"), Vec::new());
        assert_eq!(passed(RuleSelection::Listed(vec![bare])), [true, true]);
    }

    #[test]
    fn rules_of_other_addresses_are_passed_over() {
        let rules = [
            "-A C -s 10.1.2.3/32 -j ACCEPT",
            "-A C -s 10.1.2.4/32 -j ACCEPT",
            "-A C -d 10.1.2.3/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "-A C -j CNI-ADMIN",
        ]
        .map(|rule| IptablesRule::parse(rule).expect("a rule"));
        let [first, _, third, fourth] = &rules;
        let written = |rule: &IptablesRule| xt::bytes::written(cni_core::family::Family::V4, 7, rule).expect("written");
        let passed = |wanted: &[&IptablesRule]| {
            let prefilter = RulePrefilter::of_rules(wanted);
            rules.each_ref().map(|rule| prefilter.passes(&written(rule)))
        };
        assert_eq!(passed(&[first]), [true, false, true, false]);
        assert_eq!(passed(&[third, fourth]), [true, false, true, true]);
        let any = IptablesRule::parse("-A C -j RETURN").expect("a rule");
        assert_eq!(passed(&[first, &any]), [true; 4]);
    }
}
