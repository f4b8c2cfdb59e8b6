//! Masquerade by nf_tables: one table for all containers, as in the reference, and a rule for each address.
//!
//! The rules are found by their comment, without the addresses.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{Attachment, NetworkName, hash_hex};
use cni_core::valid::ValidAttachments;
use cni_netfilter::RulePosition;
use cni_netfilter::nftables::{
    BaseChainType, ChainContent, ChainId, Equality, ExistingRules, Expression, Hook, ListedRule, NftChain, NftComment,
    NftName, NftRemoval, NftRule, NftRuleset, NftTable, OwnedRules, PacketEnd, RuleSelection, RuleTag, TableFamily,
    TableId, UnwantedNftRules, Verdict, WantedChain,
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
        let own = Expression::Address(PacketEnd::Source, Equality::Equal, Cidr::host(cidr.address()));
        let outside = Expression::Address(PacketEnd::Destination, Equality::Other, cidr.network());
        NftRule::new(checks(), vec![own, outside, Expression::Masquerade]).with_comment(comment.clone())
    };
    let mut rules: Vec<NftRule> = addresses.iter().map(rule).collect();
    rules.dedup();
    let open = NftChain { comment: Some(NftComment::cut(CHECKS_COMMENT)), ..NftChain::regular(checks()) };
    let postrouting = NftChain::base(postrouting(), BaseChainType::Nat, Hook::Postrouting, 100);
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: Some(NftComment::cut(TABLE_COMMENT)) }],
        chains: vec![
            WantedChain { chain: open, content: ChainContent::Open },
            WantedChain { chain: postrouting, content: ChainContent::Fixed(entrance()) },
        ],
        owned: vec![OwnedRules {
            chain: checks(),
            tag: tag(at),
            rules,
            existing: ExistingRules::Replace,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

/// Removes the rules of an attachment, for any address.
pub fn remove(at: &Attachment) -> NftRemoval {
    let rules = vec![UnwantedNftRules { chain: checks(), which: RuleSelection::Tagged(tag(at)) }];
    NftRemoval { rules, ..NftRemoval::default() }
}

/// Removes the rules whose comments name an attachment of the network that is not valid; `None` if no rule does.
pub fn stale(rules: &[ListedRule], network: &NetworkName, valid: &ValidAttachments) -> Option<NftRemoval> {
    let kept: Vec<String> = valid.of_network(network).map(|at| instance(&at)).collect();
    let start = format!("{}-", digits(network.as_str()));
    let mut unwanted: Vec<UnwantedNftRules> = Vec::new();
    for comment in rules.iter().filter_map(|rule| rule.comment.as_deref()) {
        let instance = comment.split(',').next().unwrap_or_default();
        let which = RuleSelection::Tagged(RuleTag::Begins(instance.to_owned()));
        let known = kept.iter().any(|kept| kept == instance) || unwanted.iter().any(|one| one.which == which);
        if instance.starts_with(&start) && !known {
            unwanted.push(UnwantedNftRules { chain: checks(), which });
        }
    }
    (!unwanted.is_empty()).then_some(NftRemoval { rules: unwanted, ..NftRemoval::default() })
}

fn postrouting() -> ChainId {
    table().chain("postrouting")
}

/// The rules that all packets pass that leave the host.
fn entrance() -> Vec<NftRule> {
    let multicast = |family: Family| {
        let destination = Expression::Address(PacketEnd::Destination, Equality::Equal, family.multicast());
        NftRule::new(postrouting(), vec![destination, Expression::Verdict(Verdict::Return)])
    };
    let others = NftRule::new(postrouting(), vec![Expression::Verdict(Verdict::Goto(NftName::fixed(CHECKS)))]);
    Family::ALL.into_iter().map(multicast).chain([others]).collect()
}

/// The tag by which the rules of an attachment are found.
fn tag(at: &Attachment) -> RuleTag {
    RuleTag::Begins(instance(at))
}

/// The reference's name of the instance: 16 digits for the network, and 16 for the interface of the container.
fn instance(at: &Attachment) -> String {
    format!("{}-{}", digits(at.network.as_str()), digits(&format!("{}:{}", at.ifname, at.container)))
}

fn digits(text: &str) -> String {
    hash_hex(text)[..16].to_owned()
}

fn unquoted(text: &str) -> String {
    text.replace('"', "")
}
