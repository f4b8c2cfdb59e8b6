//! Rules of nf_tables: the payload of a rule's message, after a byte that selects the family of its table.
//!
//! A decoded rule is encoded so that it decodes to the same rule.

use cni_kernel::nftables::listing::read_rule;
use cni_kernel::nftables::message::rule_bytes;
use cni_netfilter::nftables::{NftComment, NftRule, TableFamily, TableId};

const FAMILIES: [TableFamily; 4] = [TableFamily::Ip, TableFamily::Ip6, TableFamily::Inet, TableFamily::Bridge];

/// `NFTA_RULE_HANDLE` with the number 7.
const HANDLE: [u8; 12] = [12, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 7];

pub fn run(input: &[u8]) -> Option<()> {
    let [first, payload @ ..] = input else { return None };
    let family = FAMILIES[usize::from(first % 4)];
    let listed = read_rule(family, payload)?;
    let expressions = listed.expressions?;
    let rule = NftRule::new(TableId::fixed(family, "fuzz").chain("fuzz"), expressions.clone());
    let comment = listed.comment.as_deref().and_then(|text| NftComment::parse(text).ok());
    let rule = match comment.clone() {
        Some(comment) => rule.with_comment(comment),
        None => rule,
    };
    let Some(mut written) = rule_bytes(&rule) else {
        assert!(rule.has_words(), "cannot be written: {rule}");
        return None;
    };
    written.extend(HANDLE);
    let again = read_rule(family, &written).expect("a rule");
    assert_eq!(again.expressions, Some(expressions), "{rule}");
    assert_eq!(again.comment.as_deref(), comment.as_ref().map(NftComment::as_str), "{rule}");
    Some(())
}
