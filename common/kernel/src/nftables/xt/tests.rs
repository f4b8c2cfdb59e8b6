//! Rules there and back, and bytes that nobody has written.

use super::*;
use crate::nftables::prefilter::RulePrefilter;
use cni_core::cidr::Cidr;
use cni_core::names::{Comment, IfName};
use cni_netfilter::Proto;
use cni_netfilter::iptables::{Mark, Match, PortRange, PortSet, Target, UidRange};
use netlink_packet_core::Emitable;
use proptest::prelude::*;

fn emitted(part: &RulePart) -> (&'static str, Vec<u8>) {
    let (name, attributes) = part.encode();
    let mut bytes = vec![0; attributes.as_slice().buffer_len()];
    attributes.as_slice().emit(&mut bytes);
    (name, bytes)
}

/// What is read of a rule that was written.
fn read_back(family: Family, rule: &IptablesRule) -> Option<IptablesRule> {
    let parts = encode(family, rule)?;
    let read: Option<Vec<RulePart>> =
        parts.iter().map(emitted).map(|(name, bytes)| RulePart::decode(name, &bytes)).collect();
    decode::decode(family, &rule.chain, &read?)
}

fn cidr(family: Family) -> impl Strategy<Value = Cidr> {
    (any::<[u8; 16]>(), 0..=family.bits()).prop_map(move |(bytes, prefix)| {
        let address = match family {
            Family::V4 => std::net::IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Family::V6 => std::net::IpAddr::from(bytes),
        };
        Cidr::new(address, prefix).expect("a prefix that fits").network()
    })
}

fn link() -> impl Strategy<Value = IfName> {
    "[a-z][a-z0-9._-]{0,13}[+]?".prop_map(|name| IfName::parse(&name).expect("a name"))
}

fn proto() -> impl Strategy<Value = Proto> {
    prop_oneof![Just(Proto::Tcp), Just(Proto::Udp)]
}

/// At most one of each kind that comes before the extensions, and some extensions for one protocol.
fn matches(family: Family) -> impl Strategy<Value = Vec<Match>> {
    let source = prop_oneof![cidr(family).prop_map(Match::Source), cidr(family).prop_map(Match::NotSource)];
    let destination =
        prop_oneof![cidr(family).prop_map(Match::Destination), cidr(family).prop_map(Match::NotDestination)];
    let input = prop_oneof![link().prop_map(Match::In), link().prop_map(Match::NotIn)];
    let output = prop_oneof![link().prop_map(Match::Out), link().prop_map(Match::NotOut)];
    let extensions = proto().prop_flat_map(|proto| {
        let one = prop_oneof![
            Just(Match::LocalDestination),
            Just(Match::RelatedEstablished),
            Just(Match::Protocol(proto)),
            any::<u16>().prop_map(move |port| Match::Port(proto, port)),
            (any::<u16>(), any::<u16>()).prop_filter_map("a range", move |(first, last)| {
                PortRange::new(first, last).map(|ports| Match::PortRange(proto, ports))
            }),
            (any::<u32>(), any::<u32>())
                .prop_filter_map("users", |(first, last)| { UidRange::new(first, last).map(Match::User) }),
            proptest::collection::vec(any::<u16>(), 1..=15)
                .prop_map(move |ports| Match::Ports(proto, PortSet::new(ports).expect("ports"))),
            (any::<u32>(), any::<u32>()).prop_map(|(value, mask)| Match::Mark(Mark { value, mask })),
            "[ -~]{0,300}".prop_map(|text| Match::Comment(Comment::new(&text))),
        ];
        proptest::collection::vec(one, 0..4)
    });
    let maybe = |part: BoxedStrategy<Match>| proptest::option::of(part);
    (maybe(source.boxed()), maybe(destination.boxed()), maybe(input.boxed()), maybe(output.boxed()), extensions)
        .prop_map(|(source, destination, input, output, extensions)| {
            [source, destination, input, output].into_iter().flatten().chain(extensions).collect()
        })
}

fn target(family: Family) -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::Accept),
        Just(Target::Drop),
        Just(Target::Return),
        Just(Target::Masquerade),
        (cidr(family), any::<u16>()).prop_map(|(cidr, port)| Target::Dnat((cidr.address(), port).into())),
        cidr(family).prop_map(|cidr| Target::DnatAddress(cidr.address())),
        any::<u16>().prop_map(Target::Redirect),
        (any::<u32>(), any::<u32>()).prop_map(|(value, mask)| Target::SetMark(Mark { value, mask })),
        "[A-Z][A-Z-]{0,26}".prop_map(|name| Target::Jump(ChainName::parse(&format!("C{name}")).expect("a chain"))),
    ]
}

fn rule() -> impl Strategy<Value = (Family, IptablesRule)> {
    prop_oneof![Just(Family::V4), Just(Family::V6)].prop_flat_map(|family| {
        (matches(family), target(family)).prop_map(move |(matches, target)| {
            (family, IptablesRule::new(ChainName::fixed("CNI-TEST"), matches, target))
        })
    })
}

proptest! {
    #[test]
    fn a_rule_that_is_written_is_read_back_as_iptables_would_print_it((family, rule) in rule()) {
        let rule = rule.canonical();
        // What iptables prints as words is left to it.
        let has_words = rule.matches.iter().any(|part| matches!(part, Match::Raw(_))) || matches!(rule.target, Target::Raw(_));
        let read = read_back(family, &rule);
        prop_assert_eq!(read, Some(rule).filter(|_| !has_words));
    }

    #[test]
    fn no_wanted_rule_is_passed_over((family, rule) in rule()) {
        if let Some(payload) = bytes::written(family, 7, &rule.canonical()) {
            prop_assert!(RulePrefilter::of_rules(&[&rule]).passes(&payload));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), name in "match|target|meta|cmp|payload|counter|immediate|bitwise|range") {
        let part = RulePart::decode(&name, &bytes);
        for family in Family::ALL {
            decode::decode(family, &ChainName::fixed("CNI-TEST"), &part.iter().cloned().collect::<Vec<_>>());
            read_rule(family, &ChainName::fixed("CNI-TEST"), &bytes);
        }
    }

    #[test]
    fn no_extension_panics(
        name in "addrtype|conntrack|comment|mark|owner|tcp|udp|multiport|MASQUERADE|MARK|DNAT|REDIRECT",
        revision in 0_u32..4,
        info in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let extension = extension::Extension { name, revision, info };
        for family in Family::ALL {
            for part in [RulePart::Match(extension.clone()), RulePart::Target(extension.clone())] {
                let parts = [part];
                if let Some(rule) = decode::decode(family, &ChainName::fixed("CNI-TEST"), &parts) {
                    // What was read without loss is written as it was.
                    let again = encode(family, &rule).unwrap_or_default();
                    prop_assert!(again.contains(&parts[0]), "{:?} {:?}", rule, again);
                }
            }
        }
    }
}

#[test]
fn the_forms_of_other_releases_are_read() {
    use crate::nftables::instruction::{Header, Instruction, Meta};
    use cni_netfilter::nftables::{Equality, Verdict};
    let plain = RulePart::Plain;
    let compare = |bytes: &[u8]| plain(Instruction::Compare(Equality::Equal, bytes.to_vec()));
    let payload = |header, offset, length| plain(Instruction::Payload { header, offset, length });
    let accept = plain(Instruction::Verdict(Verdict::Accept));
    let want = IptablesRule::parse("-A C -p udp -m udp --dport 53 -j ACCEPT").expect("a rule");
    for protocol in [plain(Instruction::Meta(Meta::Transport)), payload(Header::Network, 9, 1)] {
        let port = payload(Header::Transport, 2, 2);
        let parts = [protocol, compare(&[17]), port, compare(&[0, 53]), RulePart::Counter, accept.clone()];
        assert_eq!(decode::decode(Family::V4, &ChainName::fixed("C"), &parts), Some(want.clone()));
    }
    let mask = plain(Instruction::Mask(0x2000_u32.to_ne_bytes().to_vec()));
    let parts = [RulePart::PacketMark, mask, compare(&0x2000_u32.to_ne_bytes()), RulePart::Counter, accept];
    let want = IptablesRule::parse("-A C -m mark --mark 0x2000/0x2000 -j ACCEPT").expect("a rule");
    assert_eq!(decode::decode(Family::V4, &ChainName::fixed("C"), &parts), Some(want));
}

#[test]
fn what_no_rule_of_the_family_can_hold_is_left_to_iptables() {
    for (family, line) in [
        (Family::V4, "-A C -s fd00::/8 -j ACCEPT"),
        (Family::V4, "-A C ! -d fd00::1/128 -j ACCEPT"),
        (Family::V6, "-A C -s 10.0.0.0/8 -j ACCEPT"),
        (Family::V6, "-A C -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.5:80"),
        (Family::V4, "-A C -p sctp -m sctp --dport 80 -j ACCEPT"),
        (Family::V4, "-A C -p icmp -j ACCEPT"),
        (Family::V4, "-A C -m length --length 10:20 -j ACCEPT"),
        (Family::V4, "-A C -i eth0 ! -i eth1 -j ACCEPT"),
        (Family::V4, "-A C -s 10.0.0.0/8 ! -s 10.1.0.0/16 -j ACCEPT"),
    ] {
        assert_eq!(encode(family, &IptablesRule::parse(line).expect("a rule").canonical()), None, "{line}");
    }
}
