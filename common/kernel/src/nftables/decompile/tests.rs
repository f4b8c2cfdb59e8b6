use super::*;
use crate::nftables::compile::compile;
use cni_netfilter::nftables::{NftName, Verdict};
use proptest::prelude::*;

const TABLES: [TableFamily; 4] = [TableFamily::Ip, TableFamily::Ip6, TableFamily::Inet, TableFamily::Bridge];

fn family_of(table: TableFamily) -> impl Strategy<Value = Family> {
    match table {
        TableFamily::Ip => Just(Family::V4).boxed(),
        TableFamily::Ip6 => Just(Family::V6).boxed(),
        TableFamily::Inet | TableFamily::Bridge => prop_oneof![Just(Family::V4), Just(Family::V6)].boxed(),
    }
}

fn cidr(family: Family) -> impl Strategy<Value = Cidr> {
    let address = match family {
        Family::V4 => any::<[u8; 4]>().prop_map(IpAddr::from).boxed(),
        Family::V6 => any::<[u8; 16]>().prop_map(IpAddr::from).boxed(),
    };
    (address, 0..=family.bits()).prop_map(|(address, prefix)| Cidr::truncated(address, prefix).network())
}

fn end() -> impl Strategy<Value = PacketEnd> {
    prop_oneof![Just(PacketEnd::Source), Just(PacketEnd::Destination)]
}

fn is() -> impl Strategy<Value = Equality> {
    prop_oneof![Just(Equality::Equal), Just(Equality::Other)]
}

fn name() -> impl Strategy<Value = NftName> {
    "[a-z_][a-zA-Z0-9_.-]{0,40}".prop_map(|name| NftName::parse(&name).expect("a name"))
}

/// A rule as a packet filter would have it: of one address family, with one transport protocol.
fn rule() -> impl Strategy<Value = (TableFamily, Vec<Expression>)> {
    let table = prop::sample::select(&TABLES[..]);
    let table_and_family = table.prop_flat_map(|table| (Just(table), family_of(table)));
    (table_and_family, prop::sample::select(&Proto::ALL[..]))
        .prop_flat_map(|((table, family), proto)| (Just(table), prop::collection::vec(expression(family, proto), 0..6)))
}

fn expression(family: Family, proto: Proto) -> impl Strategy<Value = Expression> {
    let ifname = "[a-z0-9.*@-]{1,15}".prop_filter_map("dots", |name| IfName::parse(&name).ok());
    let direction = prop_oneof![Just(Direction::In), Just(Direction::Out)];
    let verdict = prop_oneof![
        Just(Verdict::Accept),
        Just(Verdict::Drop),
        Just(Verdict::Return),
        name().prop_map(Verdict::Jump),
        name().prop_map(Verdict::Goto),
    ];
    prop_oneof![
        (end(), is(), cidr(family)).prop_map(|(end, is, cidr)| Expression::Address(end, is, cidr)),
        Just(Expression::LocalDestination),
        any::<u16>().prop_map(move |port| Expression::Port(proto, port)),
        (direction, is(), ifname).prop_map(|(direction, is, name)| Expression::Interface(direction, is, name)),
        any::<[u8; 6]>().prop_map(|bytes| Expression::EtherSource(Mac::local(bytes))),
        Just(Expression::EstablishedRelated),
        Just(Expression::DestinationTranslated),
        (end(), name()).prop_map(move |(end, set)| Expression::InSet(end, family, set)),
        verdict.prop_map(Expression::Verdict),
        Just(Expression::Masquerade),
        (cidr(family), any::<Option<u16>>()).prop_map(|(cidr, port)| Expression::Dnat(cidr.address(), port)),
    ]
}

proptest! {
    #[test]
    fn a_rule_comes_back_from_its_instructions((table, expressions) in rule()) {
        let instructions = compile(table, &expressions).expect("no words");
        prop_assert_eq!(decompile(table, &instructions), Some(expressions));
    }
}

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
}

#[test]
fn what_only_nft_understands_is_not_compiled() {
    assert_eq!(compile(TableFamily::Ip, &[Expression::Raw(vec!["counter".to_owned()])]), None);
}
