//! What plugins want of nf_tables, as the reference writes it.

use cni_core::cidr::Cidr;
use cni_core::names::IfName;
use cni_netfilter::RulePosition;
use cni_netfilter::nftables::{
    BaseChain, BaseChainType, ChainContent, ChainId, Direction, Equality, ExistingRules, Expression, Hook, NftChain,
    NftComment, NftName, NftRemoval, NftRule, NftRuleset, NftTable, OwnedRules, PacketEnd, Policy, RuleSelection,
    RuleTag, TableFamily, TableId, UnwantedNftRules, Verdict, WantedChain,
};

pub fn cidr(text: &str) -> Cidr {
    text.parse().expect("CIDR")
}

fn wanted(chain: NftChain, content: ChainContent) -> WantedChain {
    WantedChain { chain, content }
}

fn masquerade_table() -> TableId {
    TableId::fixed(TableFamily::Inet, "cni_plugins_masquerade")
}

/// The masquerade of one container with an address of each family.
pub fn masquerade(container: u8) -> NftRuleset {
    let table = masquerade_table();
    let (checks, postrouting) = (table.chain("masq_checks"), table.chain("postrouting"));
    let goto = vec![Expression::Verdict(Verdict::Goto(NftName::fixed("masq_checks")))];
    let rule = |cidr: Cidr| {
        let source = Expression::Address(PacketEnd::Source, Equality::Equal, Cidr::host(cidr.address()));
        let outside = Expression::Address(PacketEnd::Destination, Equality::Other, cidr);
        let rule = NftRule::new(checks.clone(), vec![source, outside, Expression::Masquerade]);
        rule.with_comment(NftComment::cut(&format!("net-{container:03}, net: net1, if: eth0, id: id{container}")))
    };
    let addresses = [cidr(&format!("10.1.2.{container}/24")), cidr(&format!("2001:db8:1::{container:x}/64"))];
    NftRuleset {
        tables: vec![NftTable { id: table, comment: Some(NftComment::cut("Masquerading")) }],
        chains: vec![
            wanted(NftChain::regular(checks.clone()), ChainContent::Open),
            wanted(
                NftChain::base(postrouting.clone(), BaseChainType::Nat, Hook::Postrouting, 100),
                ChainContent::Fixed(vec![NftRule::new(postrouting, goto)]),
            ),
        ],
        owned: vec![OwnedRules {
            chain: checks.clone(),
            tag: RuleTag::Begins(format!("net-{container:03},")),
            rules: addresses.map(rule).to_vec(),
            existing: ExistingRules::Replace,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

pub fn remove_masquerade(container: u8) -> NftRemoval {
    let which = RuleSelection::Tagged(RuleTag::Begins(format!("net-{container:03},")));
    let rules = vec![UnwantedNftRules { chain: masquerade_table().chain("masq_checks"), which }];
    NftRemoval { rules, ..NftRemoval::default() }
}

fn bridge_table() -> TableId {
    TableId::fixed(TableFamily::Bridge, "nat")
}

fn spoof_chains(container: u8) -> [ChainId; 2] {
    ["", "-mac"].map(|suffix| {
        let name = format!("cni-br-iface-id{container}-eth0{suffix}");
        bridge_table().chain_named(NftName::parse(&name).expect("a name"))
    })
}

/// The MAC spoof check of one container.
pub fn spoof(container: u8) -> NftRuleset {
    let table = bridge_table();
    let (prerouting, [iface, mac]) = (table.chain("PREROUTING"), spoof_chains(container));
    let comment = || NftComment::cut(&format!("macspoofchk-id{container}-eth0"));
    let rule = |chain: &ChainId, expressions| NftRule::new(chain.clone(), expressions).with_comment(comment());
    let veth = IfName::parse(&format!("veth{container:08x}")).expect("a name");
    let by_veth = Expression::Interface(Direction::In, Equality::Equal, veth);
    let to = |chain: &ChainId| Expression::Verdict(Verdict::Jump(chain.name.clone()));
    let own_mac = format!("02:00:00:00:00:{container:02x}").parse().expect("MAC");
    let check = vec![
        rule(&mac, vec![Expression::EtherSource(own_mac), Expression::Verdict(Verdict::Return)]),
        rule(&mac, vec![Expression::Verdict(Verdict::Drop)]),
    ];
    let base =
        BaseChain { kind: BaseChainType::Filter, hook: Hook::Prerouting, priority: -300, policy: Some(Policy::Accept) };
    NftRuleset {
        tables: vec![NftTable { id: table, comment: None }],
        chains: vec![
            wanted(NftChain { id: prerouting.clone(), base: Some(base), comment: None }, ChainContent::Open),
            wanted(NftChain::regular(iface.clone()), ChainContent::Own(vec![rule(&iface, vec![to(&mac)])])),
            wanted(NftChain::regular(mac), ChainContent::Own(check)),
        ],
        owned: vec![OwnedRules {
            chain: prerouting.clone(),
            tag: RuleTag::Exactly(comment()),
            rules: vec![rule(&prerouting, vec![by_veth, to(&iface)])],
            existing: ExistingRules::Replace,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

pub fn remove_spoof(container: u8) -> NftRemoval {
    let tag = RuleTag::Exactly(NftComment::cut(&format!("macspoofchk-id{container}-eth0")));
    NftRemoval {
        rules: vec![UnwantedNftRules { chain: bridge_table().chain("PREROUTING"), which: RuleSelection::Tagged(tag) }],
        chains: spoof_chains(container).to_vec(),
        ..NftRemoval::default()
    }
}
