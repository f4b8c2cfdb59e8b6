//! `macspoofchk`: drops frames of the container with another source MAC address than its own.
//!
//! The table, the chains and the comments are the reference's. They are derived from the container and the name of its
//! interface, so they are found without the namespace. The reference's names do not contain the network: if a port of
//! another network that still exists has these names, the check gets names that contain the network.

use cni_core::error::Error;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_interface::alias::LinkOwner;
use cni_model::plan::{Ns, Step};
use cni_netfilter::RulePosition;
use cni_netfilter::nftables::{
    BaseChain, BaseChainType, ChainContent, ChainId, Direction, Equality, ExistingRules, Expression, Hook, ListedRule,
    NftChain, NftComment, NftName, NftRemoval, NftRule, NftRuleset, NftTable, OwnedRules, Policy, RuleSelection,
    RuleTag, TableFamily, TableId, UnwantedNftRules, Verdict, WantedChain,
};
use cni_netfilter::unless_absent;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::removal::Removal;

/// The names in the kernel of an attachment's check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckNames {
    iface: ChainId,
    mac: ChainId,
    comment: NftComment,
}

impl CheckNames {
    /// The reference's names, which its plugin finds; where one does not fit the kernel, digits of a hash
    /// take the place of container and interface. The reference cannot serve such a container.
    fn of(at: &Attachment) -> Self {
        let plain = format!("{}-{}", at.container, at.ifname);
        Self::plain(&plain).unwrap_or_else(|_| Self::hashed(&plain))
    }

    /// Names that contain the network as well.
    fn with_network(at: &Attachment) -> Self {
        Self::hashed(&format!("{}/{}-{}", at.network, at.container, at.ifname))
    }

    /// Chooses the names for the check of an attachment that is added: the reference's, unless a port has them that is not
    /// the attachment's. One without an owner is of the reference.
    pub fn choose(at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        Self::free_of(|owner| owner != LinkOwner::This, at, host)
    }

    /// Finds the names that the check of an attachment has, or should have: those with the network where its chain exists.
    pub fn find(at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        let own = Self::with_network(at);
        if own.exist(host)? { Ok(own) } else { Self::free_of(|owner| owner == LinkOwner::Another, at, host) }
    }

    fn free_of(is_meant: impl Fn(LinkOwner) -> bool, at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        let names = Self::of(at);
        let is_taken = find_port(&names, at, is_meant, host)?.is_some();
        Ok(if is_taken { Self::with_network(at) } else { names })
    }

    /// Returns whether a check with these names exists. Looks up only one chain, so it costs little if there is no check.
    fn exist(&self, host: &mut dyn Host) -> Result<bool, Error> {
        Ok(unless_absent(host.netfilter(Ns::Host)?.nftables().list(&self.iface))?.flatten().is_some())
    }

    fn hashed(text: &str) -> Self {
        let chain = |end| table().chain_named(NftName::hashed(CHAIN, text, end));
        let comment = NftName::hashed(COMMENT, text, "");
        Self { iface: chain(""), mac: chain(MAC), comment: NftComment::cut(comment.as_str()) }
    }

    fn plain(reference: &str) -> Result<Self, Error> {
        let chain = |end| NftName::parse(&format!("{CHAIN}{reference}{end}")).map(|name| table().chain_named(name));
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
pub fn ensure(names: &CheckNames, veth: &IfName, own: &Mac) -> NftRuleset {
    let CheckNames { iface, mac, comment } = names.clone();
    let rule = |chain: &ChainId, expressions| NftRule::new(chain.clone(), expressions).with_comment(comment.clone());
    let jump = |to: &ChainId| Expression::Verdict(Verdict::Jump(to.name.clone()));
    let by_veth = Expression::Interface(Direction::In, Equality::Equal, veth.clone());
    let from_own = Expression::EtherSource(own.clone());
    let check = vec![
        rule(&mac, vec![from_own, Expression::Verdict(Verdict::Return)]),
        rule(&mac, vec![Expression::Verdict(Verdict::Drop)]),
    ];
    let base =
        BaseChain { kind: BaseChainType::Filter, hook: Hook::Prerouting, priority: -300, policy: Some(Policy::Accept) };
    let shared = NftChain { base: Some(base), ..NftChain::regular(prerouting()) };
    let filled =
        |id: &ChainId, rules| WantedChain { chain: NftChain::regular(id.clone()), content: ChainContent::Own(rules) };
    let entrance = rule(&prerouting(), vec![by_veth, jump(&iface)]);
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: None }],
        chains: vec![
            WantedChain { chain: shared, content: ChainContent::Open },
            filled(&iface, vec![rule(&iface, vec![jump(&mac)])]),
            filled(&mac, check),
        ],
        owned: vec![OwnedRules {
            chain: prerouting(),
            tag: RuleTag::Exactly(comment.clone()),
            rules: vec![entrance],
            existing: ExistingRules::Replace,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

/// Removes the check of an attachment, for any veth. If a port of another network has the reference's names, its check
/// stays. The kernel shows whether there is a check: the configuration may no longer ask for one.
pub fn remove(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let (names, own) = (CheckNames::of(at), CheckNames::with_network(at));
    let has_own = own.exist(host)?;
    if has_own {
        host.apply(&Step::remove_rules(removal(own)))?;
    }
    if !names.exist(host)? {
        return Ok(());
    }
    // A port without an owner is one of the reference. Where this attachment had names of its own, it is another's.
    let is_anothers = |owner| owner == LinkOwner::Another || (has_own && owner == LinkOwner::Unlabelled);
    if let Some(port) = find_port(&names, at, is_anothers, host)? {
        log::info!("the check of MAC addresses of {} is that of {port}, and stays", at.container);
        return Ok(());
    }
    host.apply(&Step::remove_rules(removal(names)))?;
    Ok(())
}

/// Finds a port with such an owner, whose frames pass the check of these names.
fn find_port(
    names: &CheckNames,
    at: &Attachment,
    is_meant: impl Fn(LinkOwner) -> bool,
    host: &mut dyn Host,
) -> Result<Option<IfName>, Error> {
    if !names.exist(host)? {
        return Ok(None);
    }
    let meant = [RuleSelection::Tagged(RuleTag::Exactly(names.comment.clone()))];
    let rules = unless_absent(host.netfilter(Ns::Host)?.nftables().find(&prerouting(), &meant))?.flatten();
    let rules = rules.unwrap_or_default();
    for port in rules.iter().filter_map(ListedRule::incoming_interface) {
        let link = host.link(Ns::Host, port)?;
        if link.is_some_and(|link| is_meant(LinkOwner::of(&link, at))) {
            return Ok(Some(port.clone()));
        }
    }
    Ok(None)
}

/// Removes, for GC, the checks of ports that no longer exist, in any network: the names have no network, and such a
/// check matches no frame. The check of a valid attachment stays.
///
/// # Errors
/// The first failure; the other checks are removed all the same.
pub fn remove_orphans(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let rules = unless_absent(host.netfilter(Ns::Host)?.nftables().list(&prerouting()))?.flatten().unwrap_or_default();
    let ports = host.links(Ns::Host, LinkQuery::Kind("veth"))?;
    let kept = valid.of_network(network).flat_map(|at| [CheckNames::of(&at), CheckNames::with_network(&at)]);
    let kept: Vec<RuleTag> = kept.map(|names| RuleTag::Exactly(names.comment)).collect();
    let is_gone = |name: &IfName| ports.iter().all(|port| port.name != name.as_str());
    let is_orphan = |rule: &&ListedRule| {
        let is_check = rule.comment.as_ref().is_some_and(|comment| comment.starts_with(COMMENT));
        is_check && rule.incoming_interface().is_some_and(is_gone) && !kept.iter().any(|tag| tag.is_on(rule))
    };
    let mut removal = Removal::new(host);
    for name in rules.iter().filter(is_orphan).flat_map(ListedRule::leads_to) {
        removal.attempt(|host| remove_led_to(name, host));
    }
    removal.finish()
}

/// Removes a chain, the one behind it, and the jump to it.
fn remove_led_to(name: &NftName, host: &mut dyn Host) -> Result<(), Error> {
    let iface = table().chain_named(name.clone());
    let behind = unless_absent(host.netfilter(Ns::Host)?.nftables().list(&iface))?.flatten().unwrap_or_default();
    let behind = behind.iter().flat_map(ListedRule::leads_to).map(|name| table().chain_named(name.clone()));
    let chains = [iface.clone()].into_iter().chain(behind).collect();
    let rules =
        vec![UnwantedNftRules { chain: prerouting(), which: RuleSelection::Tagged(RuleTag::LeadsTo(name.clone())) }];
    host.apply(&Step::remove_rules(NftRemoval { rules, chains, ..NftRemoval::default() }))?;
    Ok(())
}

fn removal(names: CheckNames) -> NftRemoval {
    let CheckNames { iface, mac, comment } = names;
    let which = RuleSelection::Tagged(RuleTag::Exactly(comment));
    let rules = vec![UnwantedNftRules { chain: prerouting(), which }];
    NftRemoval { rules, chains: vec![iface, mac], ..NftRemoval::default() }
}
