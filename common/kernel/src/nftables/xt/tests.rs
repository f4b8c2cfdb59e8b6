//! Forms of other releases, and what is left to iptables.

use super::*;

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

#[test]
fn a_rule_without_the_address_or_the_chain_of_a_wanted_one_is_another() {
    let rules = [
        "-A C -s 10.1.2.3/32 -j ACCEPT",
        "-A C -s 10.1.2.4/32 -j ACCEPT",
        "-A C -d 10.1.2.3/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A C -j CNI-ADMIN",
    ]
    .map(|rule| IptablesRule::parse(rule).expect("a rule"));
    let [first, _, third, fourth] = &rules;
    let written = |rule: &IptablesRule| rule_bytes(Family::V4, 7, rule).expect("written");
    let passed = |wanted: &[&IptablesRule]| {
        let bytes = WantedBytes::of(wanted);
        rules.each_ref().map(|rule| bytes.may_be_in(&written(rule)))
    };
    assert_eq!(passed(&[first]), [true, false, true, false]);
    assert_eq!(passed(&[third, fourth]), [true, false, true, true]);
    let any = IptablesRule::parse("-A C -j RETURN").expect("a rule");
    assert_eq!(passed(&[first, &any]), [true; 4]);
}
