use super::*;
use crate::nftables::compile::compile;
use cni_netfilter::nftables::Verdict;

#[test]
fn a_condition_that_nothing_needs_has_no_type() {
    let family = [Instruction::Meta(Meta::Family), Instruction::Compare(Equality::Equal, vec![2])];
    let accept = [Instruction::Verdict(Verdict::Accept)];
    assert_eq!(decompile(TableFamily::Inet, &[&family[..], &accept].concat()), None);
    let tcp = [Instruction::Meta(Meta::Transport), Instruction::Compare(Equality::Equal, vec![6])];
    let source = Expression::Address(PacketEnd::Source, Equality::Equal, Cidr::host([10, 0, 0, 1].into()));
    let source = compile(TableFamily::Ip, &[source]).expect("no words");
    assert_eq!(decompile(TableFamily::Ip, &[&tcp[..], &source, &accept].concat()), None);
    assert_eq!(decompile(TableFamily::Inet, &accept), Some(vec![Expression::Verdict(Verdict::Accept)]));
}

/// No packet passes it, and no rule of a plugin in that table is such a one.
#[test]
fn a_condition_on_the_other_family_of_a_table_has_no_type() {
    let source = Expression::Address(PacketEnd::Source, Equality::Equal, "fd00::1/128".parse().expect("an address"));
    let source = compile(TableFamily::Inet, &[source]).expect("no words");
    let is_read = |table| decompile(table, &source).is_some();
    assert_eq!([TableFamily::Inet, TableFamily::Ip6, TableFamily::Ip].map(is_read), [true, true, false]);
}

#[test]
fn the_beginning_of_a_name_is_not_a_name() {
    let any_eth = [Instruction::Meta(Meta::InName), Instruction::Compare(Equality::Equal, b"eth".to_vec())];
    assert_eq!(decompile(TableFamily::Ip, &any_eth), None);
}

/// It is compared with what the mask leaves of an address, so it is no packet's: another rule than that for the network.
#[test]
fn a_value_with_bits_outside_its_mask_is_no_network() {
    let network = Expression::Address(PacketEnd::Source, Equality::Equal, "10.0.0.0/9".parse().expect("a network"));
    let mut instructions = compile(TableFamily::Ip, &[network]).expect("no words");
    for instruction in &mut instructions {
        if let Instruction::Compare(_, value) = instruction {
            value[3] = 1;
        }
    }
    assert_eq!(decompile(TableFamily::Ip, &instructions), None);
    for instruction in &mut instructions {
        if let Instruction::Compare(_, value) = instruction {
            value[3] = 0;
        } else if let Instruction::Mask(mask) = instruction {
            mask.truncate(2);
        }
    }
    assert_eq!(decompile(TableFamily::Ip, &instructions), None, "a mask of two bytes");
}

#[test]
fn what_only_nft_understands_is_not_compiled() {
    assert_eq!(compile(TableFamily::Ip, &[Expression::Raw(vec!["counter".to_owned()])]), None);
}
