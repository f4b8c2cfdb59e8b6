//! What the reference plugins write, as values and as the scripts that they give to `nft`.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_netfilter::Proto;
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

fn jump(chain: &ChainId, to: &'static str) -> NftRule {
    NftRule::new(chain.clone(), vec![Expression::Verdict(Verdict::Jump(NftName::fixed(to)))])
}

fn masquerade_table() -> TableId {
    TableId::fixed(TableFamily::Inet, "cni_plugins_masquerade")
}

/// The masquerade of one container with an address of each family.
pub fn masquerade(container: u8) -> NftRuleset {
    let table = masquerade_table();
    let (checks, postrouting) = (table.chain("masq_checks"), table.chain("postrouting"));
    let comment = "Masquerade traffic from certain IPs to any (non-multicast) IP outside their subnet";
    let multicast = |family: Family| {
        let address = Expression::Address(PacketEnd::Destination, Equality::Equal, family.multicast());
        NftRule::new(postrouting.clone(), vec![address, Expression::Verdict(Verdict::Return)])
    };
    let goto = Expression::Verdict(Verdict::Goto(NftName::fixed("masq_checks")));
    let skeleton = vec![multicast(Family::V4), multicast(Family::V6), NftRule::new(postrouting.clone(), vec![goto])];
    let rule = |cidr: Cidr| {
        let source = Expression::Address(PacketEnd::Source, Equality::Equal, Cidr::host(cidr.address()));
        let outside = Expression::Address(PacketEnd::Destination, Equality::Other, cidr);
        let rule = NftRule::new(checks.clone(), vec![source, outside, Expression::Masquerade]);
        rule.with_comment(NftComment::cut(&masquerade_comment(container)))
    };
    let addresses = [cidr(&format!("10.1.2.{container}/24")), cidr(&format!("2001:db8:1::{container:x}/64"))];
    NftRuleset {
        tables: vec![NftTable {
            id: table,
            comment: Some(NftComment::cut("Masquerading for plugins from github.com/containernetworking/plugins")),
        }],
        chains: vec![
            wanted(
                NftChain { comment: Some(NftComment::cut(comment)), ..NftChain::regular(checks.clone()) },
                ChainContent::Open,
            ),
            wanted(
                NftChain::base(postrouting, BaseChainType::Nat, Hook::Postrouting, 100),
                ChainContent::Fixed(skeleton),
            ),
        ],
        owned: vec![OwnedRules {
            chain: checks.clone(),
            tag: RuleTag::Begins(format!("net-{container:03},")),
            rules: addresses.into_iter().map(rule).collect(),
            existing: ExistingRules::Replace,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

fn masquerade_comment(container: u8) -> String {
    format!("net-{container:03}, net: net1, if: eth0, id: id{container}")
}

pub fn remove_masquerade(container: u8) -> NftRemoval {
    let which = RuleSelection::Tagged(RuleTag::Begins(format!("net-{container:03},")));
    let rules = vec![UnwantedNftRules { chain: masquerade_table().chain("masq_checks"), which }];
    NftRemoval { rules, ..NftRemoval::default() }
}

/// The reference's script for the same.
pub fn masquerade_script(container: u8) -> String {
    let (table, comment) = ("inet cni_plugins_masquerade", masquerade_comment(container));
    format!(
        "add table {table} {{ comment \"Masquerading for plugins from github.com/containernetworking/plugins\" ; }}
add chain {table} masq_checks {{ comment \"Masquerade traffic from certain IPs to any (non-multicast) IP outside their subnet\" ; }}
add chain {table} postrouting {{ type nat hook postrouting priority 100 ; }}
flush chain {table} postrouting
add rule {table} postrouting ip daddr == 224.0.0.0/4  return
add rule {table} postrouting ip6 daddr == ff00::/8  return
add rule {table} postrouting goto masq_checks
add rule {table} masq_checks ip saddr == 10.1.2.{container} ip daddr != 10.1.2.0/24 masquerade comment \"{comment}\"
add rule {table} masq_checks ip6 saddr == 2001:db8:1::{container:x} ip6 daddr != 2001:db8:1::/64 masquerade comment \"{comment}\"
"
    )
}

/// The port mappings of one container, with a user's own words as conditions.
pub fn portmap(family: Family, conditions: &[&str]) -> NftRuleset {
    let (address, host_ip): (Cidr, Cidr) = match family {
        Family::V4 => (cidr("10.88.0.5/32"), cidr("10.88.0.1/32")),
        Family::V6 => (cidr("fd00:88::5/128"), cidr("fd00:88::1/128")),
    };
    let table = TableId { family: family.into(), name: NftName::fixed("cni_hostport") };
    let chain = |name| table.chain(name);
    let (hostports, masquerading) = (chain("hostports"), chain("masquerading"));
    let to_us = |name| {
        let mut rule = NftRule::new(chain(name), vec![Expression::LocalDestination]);
        rule.expressions.extend(jump(&chain(name), "hostports_all").expressions);
        if !conditions.is_empty() {
            let words = conditions.iter().map(|&word| word.to_owned()).collect();
            rule.expressions.insert(0, Expression::Raw(words));
        }
        ChainContent::Fixed(vec![rule])
    };
    let comment = || NftComment::cut("ctr1");
    let dnat = |proto, port, to| [Expression::Port(proto, port), Expression::Dnat(address.address(), Some(to))];
    let on_host_ip = Expression::Address(PacketEnd::Destination, Equality::Equal, host_ip);
    let mappings = vec![
        NftRule::new(hostports.clone(), [&[on_host_ip][..], &dnat(Proto::Tcp, 8080, 80)].concat()),
        NftRule::new(hostports.clone(), dnat(Proto::Udp, 8081, 81).to_vec()),
        NftRule::new(hostports.clone(), dnat(Proto::Sctp, 8082, 82).to_vec()),
    ];
    let hairpin = |source| {
        let source = Expression::Address(PacketEnd::Source, Equality::Equal, source);
        let own = Expression::Address(PacketEnd::Destination, Equality::Equal, address);
        NftRule::new(masquerading.clone(), vec![source, own, Expression::Masquerade])
    };
    let owned = |chain: &ChainId, rules: Vec<NftRule>| OwnedRules {
        chain: chain.clone(),
        tag: RuleTag::Exactly(comment()),
        rules: rules.into_iter().map(|rule| rule.with_comment(comment())).collect(),
        existing: ExistingRules::Keep,
        position: RulePosition::Back,
    };
    let all = vec![jump(&chain("hostports_all"), "hostip_hostports"), jump(&chain("hostports_all"), "hostports")];
    NftRuleset {
        tables: vec![NftTable { id: table.clone(), comment: Some(NftComment::cut("CNI portmap plugin")) }],
        chains: vec![
            wanted(NftChain::regular(hostports.clone()), ChainContent::Open),
            wanted(NftChain::regular(chain("hostip_hostports")), ChainContent::Open),
            wanted(NftChain::regular(chain("hostports_all")), ChainContent::Fixed(all)),
            wanted(
                NftChain::base(chain("prerouting"), BaseChainType::Nat, Hook::Prerouting, -100),
                to_us("prerouting"),
            ),
            wanted(NftChain::base(chain("output"), BaseChainType::Nat, Hook::Output, -100), to_us("output")),
            wanted(
                NftChain::base(masquerading.clone(), BaseChainType::Nat, Hook::Postrouting, 100),
                ChainContent::Open,
            ),
        ],
        owned: vec![
            owned(&hostports, mappings),
            owned(&masquerading, vec![hairpin(address), hairpin(Cidr::host(family.loopback()))]),
        ],
        ..NftRuleset::default()
    }
}

/// The reference's script for the same.
pub fn portmap_script(family: Family, conditions: &str) -> String {
    let (f, address, host_ip, to, lo) = match family {
        Family::V4 => ("ip", "10.88.0.5", "10.88.0.1", "10.88.0.5", "127.0.0.1"),
        Family::V6 => ("ip6", "fd00:88::5", "fd00:88::1", "[fd00:88::5]", "::1"),
    };
    format!(
        "add table {f} cni_hostport {{ comment \"CNI portmap plugin\" ; }}
add chain {f} cni_hostport hostports
add chain {f} cni_hostport hostip_hostports
add chain {f} cni_hostport hostports_all
flush chain {f} cni_hostport hostports_all
add rule {f} cni_hostport hostports_all jump hostip_hostports
add rule {f} cni_hostport hostports_all jump hostports
add chain {f} cni_hostport prerouting {{ type nat hook prerouting priority -100 ; }}
flush chain {f} cni_hostport prerouting
add rule {f} cni_hostport prerouting {conditions} fib daddr type local jump hostports_all
add chain {f} cni_hostport output {{ type nat hook output priority -100 ; }}
flush chain {f} cni_hostport output
add rule {f} cni_hostport output {conditions} fib daddr type local jump hostports_all
add chain {f} cni_hostport masquerading {{ type nat hook postrouting priority 100 ; }}
add rule {f} cni_hostport hostports {f} daddr {host_ip} tcp dport 8080 dnat to {to}:80 comment \"ctr1\"
add rule {f} cni_hostport hostports udp dport 8081 dnat to {to}:81 comment \"ctr1\"
add rule {f} cni_hostport hostports sctp dport 8082 dnat to {to}:82 comment \"ctr1\"
add rule {f} cni_hostport masquerading {f} saddr {address} {f} daddr {address} masquerade comment \"ctr1\"
add rule {f} cni_hostport masquerading {f} saddr {lo} {f} daddr {address} masquerade comment \"ctr1\"
"
    )
}

fn bridge_table() -> TableId {
    TableId::fixed(TableFamily::Bridge, "nat")
}

/// The MAC spoof check of one container.
pub fn spoof(container: u8) -> NftRuleset {
    let table = bridge_table();
    let named = |suffix: &str| {
        let name = format!("cni-br-iface-id{container}-eth0{suffix}");
        table.chain_named(NftName::parse(&name).expect("a name"))
    };
    let (prerouting, iface, mac) = (table.chain("PREROUTING"), named(""), named("-mac"));
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
    let table = bridge_table();
    let tag = RuleTag::Exactly(NftComment::cut(&format!("macspoofchk-id{container}-eth0")));
    let named = |suffix: &str| {
        let name = format!("cni-br-iface-id{container}-eth0{suffix}");
        table.chain_named(NftName::parse(&name).expect("a name"))
    };
    NftRemoval {
        rules: vec![UnwantedNftRules { chain: table.chain("PREROUTING"), which: RuleSelection::Tagged(tag) }],
        chains: vec![named(""), named("-mac")],
        ..NftRemoval::default()
    }
}

/// What the reference hands to `nft -j`, in both its transactions.
pub fn spoof_json(container: u8) -> [String; 2] {
    let chain = format!("cni-br-iface-id{container}-eth0");
    let comment = format!("macspoofchk-id{container}-eth0");
    let at = |name: &str| format!(r#""family":"bridge","table":"nat","name":"{name}""#);
    let rule = |chain: &str, expr: &str| {
        format!(
            r#"{{"rule":{{"family":"bridge","table":"nat","chain":"{chain}","expr":[{expr}],"comment":"{comment}"}}}}"#
        )
    };
    let matches = |left: &str, right: &str| format!(r#"{{"match":{{"op":"==","left":{left},"right":"{right}"}}}}"#);
    let jump = |to: &str| format!(r#"{{"jump":{{"target":"{to}"}}}}"#);
    let objects = [
        r#"{"table":{"family":"bridge","name":"nat"}}"#.to_owned(),
        format!(
            r#"{{"chain":{{{},"type":"filter","hook":"prerouting","prio":-300,"policy":"accept"}}}}"#,
            at("PREROUTING")
        ),
        format!(r#"{{"chain":{{{}}}}}"#, at(&chain)),
        format!(r#"{{"chain":{{{}}}}}"#, at(&format!("{chain}-mac"))),
    ];
    let by_veth = matches(r#"{"meta":{"key":"iifname"}}"#, &format!("veth{container:08x}"));
    let own_mac =
        matches(r#"{"payload":{"protocol":"ether","field":"saddr"}}"#, &format!("02:00:00:00:00:{container:02x}"));
    let rules = [
        format!(r#"{{"flush":{{"chain":{{{}}}}}}}"#, at(&chain)),
        format!(r#"{{"flush":{{"chain":{{{}}}}}}}"#, at(&format!("{chain}-mac"))),
        rule("PREROUTING", &format!("{by_veth},{}", jump(&chain))),
        rule(&chain, &jump(&format!("{chain}-mac"))),
        rule(&format!("{chain}-mac"), &format!(r#"{own_mac},{{"return":null}}"#)),
        rule(&format!("{chain}-mac"), r#"{"drop":null}"#),
    ];
    [objects.join(","), rules.join(",")].map(|objects| format!(r#"{{"nftables":[{objects}]}}"#))
}
