//! The masquerade by nf_tables: one table for all containers, the reference's, and a rule for each address.
//!
//! The rules are known by their comment, so that they are found without the addresses.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{Attachment, NetworkName, hash_hex};
use cni_core::valid::ValidAttachments;
use cni_netfilter::RulePosition;
use cni_netfilter::nftables::{
    ChainId, Content, End, ExistingRules, Expression, Hook, Is, Kind, ListedRule, NftChain, NftComment, NftName,
    NftRemoval, NftRule, NftRuleset, NftTable, Owned, TableFamily, TableId, Tag, Unwanted, Verdict, WantedChain, Which,
};

const TABLE_COMMENT: &str = "Masquerading for plugins from github.com/containernetworking/plugins";
const CHECKS: &str = "masq_checks";
const CHECKS_COMMENT: &str = "Masquerade traffic from certain IPs to any (non-multicast) IP outside their subnet";

fn table() -> TableId {
    TableId::fixed(TableFamily::Inet, "cni_plugins_masquerade")
}

/// The chain that holds the rules of all containers.
pub fn checks() -> ChainId {
    table().chain(CHECKS)
}

/// The rules that give packets to other networks the host's address.
pub fn ensure(at: &Attachment, addresses: &[Cidr]) -> NftRuleset {
    let comment = NftComment::cut(&format!(
        "{}, net: {}, if: {}, id: {}",
        instance(at),
        unquoted(at.network.as_str()),
        unquoted(at.ifname.as_str()),
        unquoted(at.container.as_str())
    ));
    let rule = |cidr: &Cidr| {
        let own = Expression::Address(End::Source, Is::Equal, Cidr::host(cidr.address()));
        let outside = Expression::Address(End::Destination, Is::Other, cidr.network());
        NftRule::new(checks(), vec![own, outside, Expression::Masquerade]).with_comment(comment.clone())
    };
    let mut rules: Vec<NftRule> = addresses.iter().map(rule).collect();
    rules.dedup();
    let open = NftChain { comment: Some(NftComment::cut(CHECKS_COMMENT)), ..NftChain::regular(checks()) };
    let postrouting = NftChain::base(postrouting(), Kind::Nat, Hook::Postrouting, 100);
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: Some(NftComment::cut(TABLE_COMMENT)) }],
        chains: vec![
            WantedChain { chain: open, content: Content::Open },
            WantedChain { chain: postrouting, content: Content::Fixed(entrance()) },
        ],
        owned: vec![Owned {
            chain: checks(),
            tag: tag(at),
            rules,
            existing: ExistingRules::Replace,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

/// Removes the rules of an attachment, whatever its addresses are.
pub fn remove(at: &Attachment) -> NftRemoval {
    let rules = vec![Unwanted { chain: checks(), which: Which::Tagged(tag(at)) }];
    NftRemoval { rules, ..NftRemoval::default() }
}

/// Removes the rules whose comments name another attachment of the network than the valid ones; `None` when
/// there is none.
pub fn stale(rules: &[ListedRule], network: &NetworkName, valid: &ValidAttachments) -> Option<NftRemoval> {
    let kept: Vec<String> = valid.of_network(network).map(|at| instance(&at)).collect();
    let start = format!("{}-", digits(network.as_str()));
    let mut unwanted: Vec<Unwanted> = Vec::new();
    for comment in rules.iter().filter_map(|rule| rule.comment.as_deref()) {
        let instance = comment.split(',').next().unwrap_or_default();
        let which = Which::Tagged(Tag::Begins(instance.to_owned()));
        let known = kept.iter().any(|kept| kept == instance) || unwanted.iter().any(|one| one.which == which);
        if instance.starts_with(&start) && !known {
            unwanted.push(Unwanted { chain: checks(), which });
        }
    }
    (!unwanted.is_empty()).then_some(NftRemoval { rules: unwanted, ..NftRemoval::default() })
}

fn postrouting() -> ChainId {
    table().chain("postrouting")
}

/// What all packets pass that leave the host.
fn entrance() -> Vec<NftRule> {
    let multicast = |family: Family| {
        let destination = Expression::Address(End::Destination, Is::Equal, family.multicast());
        NftRule::new(postrouting(), vec![destination, Expression::Verdict(Verdict::Return)])
    };
    let others = NftRule::new(postrouting(), vec![Expression::Verdict(Verdict::Goto(NftName::fixed(CHECKS)))]);
    Family::ALL.into_iter().map(multicast).chain([others]).collect()
}

/// How the rules of an attachment are known.
pub fn tag(at: &Attachment) -> Tag {
    Tag::Begins(instance(at))
}

/// What the reference calls the instance: 16 digits for the network, and 16 for the interface of the container.
fn instance(at: &Attachment) -> String {
    format!("{}-{}", digits(at.network.as_str()), digits(&format!("{}:{}", at.ifname, at.container)))
}

fn digits(text: &str) -> String {
    hash_hex(text)[..16].to_owned()
}

fn unquoted(text: &str) -> String {
    text.replace('"', "")
}

#[cfg(test)]
mod tests;
