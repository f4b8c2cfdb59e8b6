//! Text and value of a rule are each other's inverse. The texts are dumps of real hosts.

use proptest::prelude::*;

use super::*;
use crate::iptables::rule::{Mark, PortRange, PortSet, UidRange};
use crate::proto::Proto;
use cni_core::names::{ChainName, Comment, IfName};

const DUMPS: &str = r#"
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j NOMAD-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -d fd00:88::5/128 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -s 10.1.2.2/32 -m comment --comment "name: \"net1\" id: \"id1\"" -j CNI-a19237f207ed3fa9670f34ba
-A CNI-a19237f207ed3fa9670f34ba ! -d 224.0.0.0/4 -m comment --comment "name: \"net1\" id: \"id1\"" -j MASQUERADE
-A CNI-DN-c189d8b6a7b4d184c9f70 -s fd00:88::/64 -d fd00:88::1/128 -p udp -m udp --dport 8082 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c189d8b6a7b4d184c9f70 -p sctp -m sctp --dport 8083 -j DNAT --to-destination [fd00:88::5]:83
-A CNI-DN-c189d8b6a7b4d184c9f70 -p tcp -m tcp --dport 9000 -j DNAT --to-destination 10.88.0.5:90
-A CNI-HOSTPORT-DNAT ! -d 192.0.2.0/24 -p tcp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 8080 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"n1\" id: \"ctr1\"" -m multiport --dports 9000,9001,9002,9003,9004,9005,9006,9007,9008,9009,9010,9011,9012,9013,9014 -j CNI-DN-c189d8b6a7b4d184c9f70
-A CONSUL_DNS_REDIRECT -d 192.168.1.117/32 -p udp -m udp --dport 53 -j DNAT --to-destination 192.168.1.117:8600
-A CONSUL_DNS_REDIRECT -p tcp -m tcp --dport 53 -j DNAT --to-destination 10.96.0.53
-A CONSUL_DNS_REDIRECT -p tcp -m tcp --dport 53 -j DNAT --to-destination fd00::53
-A CONSUL_PROXY_INBOUND -p tcp -m tcp --dport 8000:8005 -j RETURN
-A CONSUL_PROXY_INBOUND -p tcp -j CONSUL_PROXY_IN_REDIRECT
-A CONSUL_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports 25018
-A CONSUL_PROXY_OUTPUT -m owner --uid-owner 101 -j RETURN
-A CONSUL_PROXY_OUTPUT -m owner --uid-owner 1000-1005 -j RETURN
-A CONSUL_PROXY_OUTPUT -d 127.0.0.1/32 -j RETURN
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
"#;

/// What other programs write: to be read without loss, typed or not.
const FOREIGN: &str = r#"
-A C -m comment --comment simple -j RETURN
-A C -m comment --comment "" -j RETURN
-A C -m comment --comment "it\'s \\ \"x\"" -j RETURN
-A C -m comment --comment -j -j RETURN
-A C ! -s 10.0.0.1/32 -i eth0 ! -o br0 -p tcp -m comment --comment a-b_c -m tcp --dport 80 -j ACCEPT
-A C -s 10.0.0.1/32 -m mark --mark 0x10 -j C2
-A C -m mark ! --mark 0x10/0xff -j ACCEPT
-A C -m mark --mark 0x10/0xffffffff -j ACCEPT
-A C -p tcp -m multiport --dports 1,2:5,7 -j ACCEPT
-A C -p udplite -m multiport --dports 1,7 -j ACCEPT
-A C -p dccp -m dccp --dport 5 -j ACCEPT
-A C -p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT
-A C -p tcp -m tcp ! --dport 80 -j ACCEPT
-A C -p tcp -m tcp --dport 1:65535 -j ACCEPT
-A C -p tcp -m udp --dport 80 -j ACCEPT
-A C -p tcp -m tcp --dport 0:65535 -j ACCEPT
-A C -p tcp -m tcp --dport 8000:80 -j ACCEPT
-A C -p tcp -m tcp -j ACCEPT
-A C -p tcp -m tcp --sport 1:2 --dport 8000:8005 -j ACCEPT
-A C -m owner ! --uid-owner 101 -j ACCEPT
-A C -m owner --uid-owner 5-5 -j ACCEPT
-A C -m owner --uid-owner 4294967295 -j ACCEPT
-A C -m owner --uid-owner root -j ACCEPT
-A C -m owner --uid-owner 101 --gid-owner 5 -j ACCEPT
-A C -p icmp -j ACCEPT
-A C -p tcp -j ACCEPT
-A C ! -p tcp -j ACCEPT
-A C ! -i eth0 -o a.b -j ACCEPT
-A C -g C2
-A C -j MARK --set-xmark 0x5/0xffffffff
-A C -m addrtype --dst-type LOCAL --limit-iface-in -j ACCEPT
-A C -m addrtype ! --dst-type LOCAL -j ACCEPT
-A C -m conntrack --ctstate RELATED,ESTABLISHED ! --ctproto 6 -j ACCEPT
-A C -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT
-A C -s 10.0.0.0/255.0.255.0 -j ACCEPT
-A C ! -s 0.0.0.0/0 -j ACCEPT
-A C -s ::10.1.2.3/128 -j ACCEPT
-A C -s ::ffff:10.1.2.3/128 -j ACCEPT
-A C -m comment --comment no-target
-A C
-A C -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -m comment --comment last -j LOG --log-prefix "a b"
-A C -j DNAT --to-destination 10.0.0.1
-A C -j DNAT --to-destination 10.0.0.1:80-90
-A C -j MASQUERADE --random-fully
-A C -p tcp -j REDIRECT --to-ports 80-90
-A C -p tcp -j REDIRECT
-A C -j REJECT --reject-with icmp-port-unreachable
-A C -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
-A C -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-X
"#;

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty())
}

fn is_typed(rule: &IptablesRule) -> bool {
    !matches!(rule.target, Target::Raw(_)) && !rule.matches.iter().any(|part| matches!(part, Match::Raw(_)))
}

#[test]
fn what_the_plugins_write_is_read_with_types_and_written_the_same() {
    for line in lines(DUMPS) {
        let rule = IptablesRule::parse(line).expect(line);
        assert_eq!(rule.to_string(), line);
        assert!(is_typed(&rule), "{rule:?}");
    }
}

#[test]
fn what_others_write_is_read_without_loss() {
    for line in lines(FOREIGN) {
        assert_eq!(IptablesRule::parse(line).expect(line).to_string(), line);
    }
}

/// The kernel keeps a comment up to a byte of zero, so one with more behind it is not what would be read back.
#[test]
fn a_comment_with_a_byte_of_zero_has_no_type() {
    let line = "-A C -m comment --comment \"a\0b\" -j ACCEPT";
    let rule = IptablesRule::parse(line).expect("a rule");
    assert!(!is_typed(&rule), "{rule:?}");
}

#[test]
fn a_rule_is_rendered_in_the_order_of_iptables() {
    let chain = ChainName::fixed("CNI-DN-c189d8b6a7b4d184c9f70");
    let cidr = |text: &str| text.parse().expect("network");
    let matches = vec![
        Match::Port(Proto::Tcp, 8080),
        Match::Comment(Comment::new("a \"b\"")),
        Match::NotOut(IfName::parse("br0").expect("name")),
        Match::Destination(cidr("10.88.0.1/32")),
        Match::Source(cidr("10.88.0.5/24")),
    ];
    let rule = IptablesRule::new(chain, matches, Target::Jump(ChainName::fixed("CNI-HOSTPORT-SETMARK")));
    let text = r#"-A CNI-DN-c189d8b6a7b4d184c9f70 -s 10.88.0.0/24 -d 10.88.0.1/32 ! -o br0 -p tcp -m tcp --dport 8080 -m comment --comment "a \"b\"" -j CNI-HOSTPORT-SETMARK"#;
    assert_eq!(rule.to_string(), text);
    assert_eq!(rule.canonical().to_string(), text);
    assert_eq!(rule.canonical().source(), Some(cidr("10.88.0.0/24")));
}

#[test]
fn every_source_is_no_source() {
    for all in ["0.0.0.0/0", "::/0"] {
        let source = Match::Source(all.parse().expect("network"));
        assert_eq!(
            IptablesRule::new(ChainName::fixed("C"), vec![source], Target::Accept).to_string(),
            "-A C -j ACCEPT"
        );
    }
}

#[test]
fn a_users_words_get_types_once_they_are_read_back() {
    let words = ["!", "-d", "192.0.2.0/24"].map(str::to_owned).to_vec();
    let ports = PortSet::new(vec![8080]).expect("ports");
    let matches = vec![Match::Ports(Proto::Tcp, ports), Match::Raw(words)];
    let rule = IptablesRule::new(ChainName::fixed("C"), matches, Target::Accept);
    assert_eq!(rule.to_string(), "-A C -p tcp -m multiport --dports 8080 ! -d 192.0.2.0/24 -j ACCEPT");
    assert_eq!(rule.canonical().to_string(), "-A C ! -d 192.0.2.0/24 -p tcp -m multiport --dports 8080 -j ACCEPT");
}

#[test]
fn words_that_part_others_do_so_until_they_have_moved_away() {
    let words = ["--dports", "1", "!", "-s", "10.0.0.1/32"].map(str::to_owned).to_vec();
    let ports = PortSet::new(vec![8080]).expect("ports");
    let matches = vec![Match::Ports(Proto::Tcp, ports), Match::Raw(words)];
    let canonical = IptablesRule::new(ChainName::fixed("C"), matches, Target::Accept).canonical();
    assert_eq!(canonical.to_string(), "-A C ! -s 10.0.0.1/32 -p tcp -m multiport --dports 8080 --dports 1 -j ACCEPT");
    assert_eq!(canonical.canonical(), canonical);
}

#[test]
fn lines_that_are_not_rules_are_ignored() {
    for line in ["", "-P INPUT ACCEPT", "-N C", "-A", "-A -j", "# Warning: iptables-legacy tables present", "COMMIT"] {
        assert_eq!(IptablesRule::parse(line), None, "{line}");
    }
}

fn network() -> impl Strategy<Value = Cidr> {
    let v4 = (any::<std::net::Ipv4Addr>(), 1..=32u8).prop_map(|(address, prefix)| (address.into(), prefix));
    // Of the first half of the address space: no mapped and no compatible addresses, which libc prints its own way.
    let v6 = (1u16.., any::<[u16; 7]>(), 16..=128u8).prop_map(|(first, rest, prefix)| {
        let mut groups = [0; 8];
        groups[0] = first;
        groups[1..].copy_from_slice(&rest);
        (std::net::Ipv6Addr::from(groups).into(), prefix)
    });
    prop_oneof![v4, v6].prop_map(|(address, prefix): (std::net::IpAddr, u8)| Cidr::truncated(address, prefix).network())
}

fn interface() -> impl Strategy<Value = IfName> {
    "[a-z][a-z0-9.@+-]{0,14}".prop_map(|name| IfName::parse(&name).expect("name"))
}

fn chain() -> impl Strategy<Value = ChainName> {
    "CNI-[A-Za-z0-9_-]{1,24}".prop_map(|name| ChainName::parse(&name).expect("name"))
}

fn mark() -> impl Strategy<Value = Mark> {
    any::<(u32, u32)>().prop_map(|(value, mask)| Mark { value, mask })
}

fn headers() -> impl Strategy<Value = Vec<Match>> {
    let source = prop_oneof![network().prop_map(Match::Source), network().prop_map(Match::NotSource)];
    let destination = prop_oneof![network().prop_map(Match::Destination), network().prop_map(Match::NotDestination)];
    let output = prop_oneof![interface().prop_map(Match::Out), interface().prop_map(Match::NotOut)];
    let input = prop_oneof![interface().prop_map(Match::In), interface().prop_map(Match::NotIn)];
    let optional = (
        proptest::option::of(source),
        proptest::option::of(destination),
        proptest::option::of(input),
        proptest::option::of(output),
    );
    optional.prop_map(|(s, d, i, o)| [s, d, i, o].into_iter().flatten().collect())
}

fn extensions() -> impl Strategy<Value = Vec<Match>> {
    let proto = proptest::sample::select(Proto::ALL.as_slice());
    let other = prop_oneof![
        Just(Match::LocalDestination),
        Just(Match::RelatedEstablished),
        mark().prop_map(Match::Mark),
        "\\PC{0,60}".prop_map(|text| Match::Comment(Comment::new(&text))),
    ];
    let other = prop_oneof![other, users().prop_map(Match::User)];
    let parts = (proptest::collection::vec(other, 0..4), proptest::option::of(proto.prop_flat_map(transport)));
    (parts, any::<prop::sample::Index>()).prop_map(|((mut parts, transport), at)| {
        let at = if matches!(transport, Some(Match::Protocol(_))) { 0 } else { at.index(parts.len() + 1) };
        parts.splice(at..at, transport);
        parts
    })
}

fn transport(proto: Proto) -> impl Strategy<Value = Match> {
    let ports = proptest::collection::vec(any::<u16>(), 1..=PortSet::MAX);
    let range = any::<(u16, u16)>().prop_filter_map("a range", |(first, last)| PortRange::new(first, last));
    prop_oneof![
        Just(Match::Protocol(proto)),
        any::<u16>().prop_map(move |port| Match::Port(proto, port)),
        range.prop_map(move |ports| Match::PortRange(proto, ports)),
        ports.prop_map(move |ports| Match::Ports(proto, PortSet::new(ports).expect("ports"))),
    ]
}

fn users() -> impl Strategy<Value = UidRange> {
    any::<(u32, u32)>().prop_filter_map("users", |(first, last)| UidRange::new(first, last))
}

fn any_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::Accept),
        Just(Target::Drop),
        Just(Target::Return),
        Just(Target::Masquerade),
        (any::<std::net::Ipv4Addr>(), any::<u16>()).prop_map(|(ip, port)| Target::Dnat((ip, port).into())),
        (any::<std::net::Ipv6Addr>(), any::<u16>()).prop_map(|(ip, port)| Target::Dnat((ip, port).into())),
        any::<std::net::Ipv4Addr>().prop_map(|ip| Target::DnatAddress(ip.into())),
        any::<u16>().prop_map(Target::Redirect),
        mark().prop_map(Target::SetMark),
        chain().prop_map(Target::Jump),
        Just(Target::Raw(["-j", "LOG", "--log-prefix", "a \"b\" "].map(str::to_owned).to_vec())),
        Just(Target::Raw(Vec::new())),
    ]
}

/// A word that means something somewhere in a rule, or breaks it.
fn word() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(
        [
            "!",
            "-s",
            "-d",
            "-i",
            "-o",
            "-p",
            "-m",
            "-j",
            "-g",
            "tcp",
            "10.0.0.1/32",
            "eth0",
            "comment",
            "--comment",
            "multiport",
            "--dports",
            "1,2",
            "mark",
            "--mark",
            "0x1/0x1",
            "--dport",
            "80",
            "80:90",
            "owner",
            "--uid-owner",
            "REDIRECT",
            "--to-ports",
            "\"a b\"",
            "\"",
            "\\",
            "--x",
        ]
        .as_slice(),
    )
}

proptest! {
    #[test]
    fn a_rule_survives_its_text((chain, mut matches, more, target) in (chain(), headers(), extensions(), any_target())) {
        matches.extend(more);
        let rule = IptablesRule::new(chain, matches, target);
        prop_assert_eq!(IptablesRule::parse(&rule.to_string()), Some(rule));
    }

    #[test]
    fn a_rule_without_words_is_sorted_as_its_text_would_tell(
        mut matches in extensions(),
        headers in headers(),
        everything in any::<bool>(),
        host in network(),
        target in any_target(),
    ) {
        let any = "0.0.0.0/0".parse().expect("network");
        matches.extend(everything.then_some(Match::Source(any)));
        matches.extend(headers);
        matches.push(Match::NotDestination(Cidr::truncated(host.address(), host.prefix() / 2 + 1)));
        let rule = IptablesRule::new(ChainName::fixed("C"), matches, target);
        prop_assert_eq!(rule.canonical(), rule.reread());
    }

    #[test]
    fn any_text_can_be_read(text in "\\PC*") {
        let rule = IptablesRule::parse(&format!("-A C {text}"));
        prop_assert_eq!(rule.map(|rule| rule.chain), Some(ChainName::fixed("C")));
    }

    #[test]
    fn any_options_can_be_read_and_written(
        words in proptest::collection::vec(word(), 0..20)
    ) {
        let rule = IptablesRule::parse(&format!("-A C {}", words.join(" "))).expect("a rule");
        prop_assert!(rule.to_string().starts_with("-A C"));
    }

    #[test]
    fn the_canonical_form_of_a_rule_is_its_own(
        mut matches in headers(),
        more in extensions(),
        words in proptest::collection::vec(proptest::collection::vec(word(), 0..12), 0..3),
        at in any::<prop::sample::Index>(),
        target in any_target(),
    ) {
        matches.extend(more);
        for words in words {
            matches.insert(at.index(matches.len() + 1), Match::Raw(words.into_iter().map(str::to_owned).collect()));
        }
        let canonical = IptablesRule::new(ChainName::fixed("C"), matches, target).canonical();
        prop_assert_eq!(IptablesRule::parse(&canonical.to_string()), Some(canonical.clone()));
        prop_assert_eq!(canonical.canonical(), canonical);
    }
}
