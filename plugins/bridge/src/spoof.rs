//! `macspoofchk`: frames of the container that do not come from its own MAC address are dropped.
//!
//! The table, the chains and the comments are the reference's. All of it is known by the container and the
//! name of its interface, so that it is found without the namespace.

use cni_core::error::Error;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_interface::alias::LinkOwner;
use cni_netfilter::RulePosition;
use cni_netfilter::nftables::{
    Base, ChainId, Content, Direction, ExistingRules, Expression, Hook, Is, Kind, ListedRule, NftChain, NftComment,
    NftName, NftRemoval, NftRule, NftRuleset, NftTable, Owned, Policy, TableFamily, TableId, Tag, Unwanted, Verdict,
    WantedChain, Which, WordError,
};
use cni_netfilter::unless_absent;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::plan::{Ns, Step};
use cni_plugin::removal::Removal;

/// What of an attachment has a name in the kernel.
struct CheckNames {
    iface: ChainId,
    mac: ChainId,
    comment: NftComment,
}

impl CheckNames {
    /// The reference's names, which its plugin finds; where one does not fit the kernel, digits of a hash
    /// take the place of container and interface. The reference cannot serve such a container.
    fn of(at: &Attachment) -> Self {
        let plain = format!("{}-{}", at.container, at.ifname);
        Self::plain(&plain).unwrap_or_else(|_| {
            let chain = |end| table().chain_named(NftName::hashed(CHAIN, &plain, end));
            let comment = NftName::hashed(COMMENT, &plain, "");
            Self { iface: chain(""), mac: chain(MAC), comment: NftComment::cut(comment.as_str()) }
        })
    }

    fn plain(reference: &str) -> Result<Self, WordError> {
        let chain = |end| Ok(table().chain_named(NftName::parse(&format!("{CHAIN}{reference}{end}"))?));
        let comment = NftComment::parse(&format!("{COMMENT}{reference}"))?;
        Ok(Self { iface: chain("")?, mac: chain(MAC)?, comment })
    }
}

const CHAIN: &str = "cni-br-iface-";
const MAC: &str = "-mac";
const COMMENT: &str = "macspoofchk-";

fn table() -> TableId {
    TableId::fixed(TableFamily::Bridge, "nat")
}

fn prerouting() -> ChainId {
    table().chain("PREROUTING")
}

/// The check of the frames that come in by a veth.
pub fn ensure(at: &Attachment, veth: &IfName, own: &Mac) -> NftRuleset {
    let CheckNames { iface, mac, comment } = CheckNames::of(at);
    let rule = |chain: &ChainId, expressions| NftRule::new(chain.clone(), expressions).with_comment(comment.clone());
    let jump = |to: &ChainId| Expression::Verdict(Verdict::Jump(to.name.clone()));
    let by_veth = Expression::Interface(Direction::In, Is::Equal, veth.clone());
    let from_own = Expression::EtherSource(own.clone());
    let check = vec![
        rule(&mac, vec![from_own, Expression::Verdict(Verdict::Return)]),
        rule(&mac, vec![Expression::Verdict(Verdict::Drop)]),
    ];
    let base = Base { kind: Kind::Filter, hook: Hook::Prerouting, priority: -300, policy: Some(Policy::Accept) };
    let shared = NftChain { base: Some(base), ..NftChain::regular(prerouting()) };
    let filled =
        |id: &ChainId, rules| WantedChain { chain: NftChain::regular(id.clone()), content: Content::Own(rules) };
    let entrance = rule(&prerouting(), vec![by_veth, jump(&iface)]);
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: None }],
        chains: vec![
            WantedChain { chain: shared, content: Content::Open },
            filled(&iface, vec![rule(&iface, vec![jump(&mac)])]),
            filled(&mac, check),
        ],
        owned: vec![Owned {
            chain: prerouting(),
            tag: Tag::Exactly(comment.clone()),
            rules: vec![entrance],
            existing: ExistingRules::Replace,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

/// Removes the check of an attachment, of whatever veth it is, unless it is another network's by now: the names have
/// no network, so a container that comes to another one takes them over.
///
/// # Errors
/// When the kernel does not answer, or refuses.
pub fn remove(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    if let Some(port) = find_anothers_port(at, host)? {
        log::info!("the check of MAC addresses of {} is that of {port} by now, and stays", at.container);
        return Ok(());
    }
    host.apply(&Step::remove_rules(removal(at)))?;
    Ok(())
}

/// A port of another attachment whose frames go through the check.
fn find_anothers_port(at: &Attachment, host: &mut dyn Host) -> Result<Option<IfName>, Error> {
    let tag = Tag::Exactly(CheckNames::of(at).comment);
    let rules = unless_absent(host.netfilter(Ns::Host)?.nftables().list(&prerouting()))?.flatten().unwrap_or_default();
    let guarded = rules.iter().filter(|rule| tag.is_on(rule)).filter_map(ListedRule::incoming_interface);
    for port in guarded.cloned() {
        let link = host.link(Ns::Host, &port)?;
        if link.is_some_and(|link| LinkOwner::of(&link, at) == LinkOwner::Another) {
            return Ok(Some(port));
        }
    }
    Ok(None)
}

/// Removes, for GC, the checks of ports that are gone, whoever had them: the names have no network, and such a check
/// catches no frame any more. One of a valid attachment stays.
///
/// # Errors
/// The first failure; one check does not keep the others.
pub fn remove_orphans(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let rules = unless_absent(host.netfilter(Ns::Host)?.nftables().list(&prerouting()))?.flatten().unwrap_or_default();
    let ports = host.links(Ns::Host, LinkQuery::Kind("veth"))?;
    let kept: Vec<Tag> = valid.of_network(network).map(|at| Tag::Exactly(CheckNames::of(&at).comment)).collect();
    let is_gone = |name: &IfName| ports.iter().all(|port| port.name != name.as_str());
    let is_orphan = |rule: &&ListedRule| {
        is_check(rule) && rule.incoming_interface().is_some_and(is_gone) && !kept.iter().any(|tag| tag.is_on(rule))
    };
    let mut removal = Removal::new(host);
    for name in rules.iter().filter(is_orphan).flat_map(ListedRule::leads_to) {
        removal.attempt(|host| remove_led_to(name, host));
    }
    removal.finish()
}

fn is_check(rule: &ListedRule) -> bool {
    rule.comment.as_ref().is_some_and(|comment| comment.starts_with(COMMENT))
}

/// Removes a chain, the one behind it, and the jump to it.
fn remove_led_to(name: &NftName, host: &mut dyn Host) -> Result<(), Error> {
    let iface = table().chain_named(name.clone());
    let behind = unless_absent(host.netfilter(Ns::Host)?.nftables().list(&iface))?.flatten().unwrap_or_default();
    let behind = behind.iter().flat_map(ListedRule::leads_to).map(|name| table().chain_named(name.clone()));
    let chains = [iface.clone()].into_iter().chain(behind).collect();
    let rules = vec![Unwanted { chain: prerouting(), which: Which::Tagged(Tag::LeadsTo(name.clone())) }];
    host.apply(&Step::remove_rules(NftRemoval { rules, chains, ..NftRemoval::default() }))?;
    Ok(())
}

fn removal(at: &Attachment) -> NftRemoval {
    let CheckNames { iface, mac, comment } = CheckNames::of(at);
    let which = Which::Tagged(Tag::Exactly(comment));
    let rules = vec![Unwanted { chain: prerouting(), which }];
    NftRemoval { rules, chains: vec![iface, mac], ..NftRemoval::default() }
}

#[cfg(test)]
mod tests;
