//! The limits of a range, the order of candidates, and that order against a model that knows nothing of ranges.

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

fn given(subnet: &str) -> GivenRange {
    GivenRange { subnet: Some(Subnet::Plain(subnet.parse().expect("subnet"))), ..GivenRange::default() }
}

fn between(subnet: &str, start: &str, end: &str) -> GivenRange {
    let address = |text: &str| if text.is_empty() { None } else { Some(ip(text)) };
    GivenRange { start: address(start), end: address(end), ..given(subnet) }
}

fn set(given: &[GivenRange]) -> RangeSet {
    RangeSet::new(given).expect("valid")
}

fn order(set: &RangeSet, last: Option<&str>) -> String {
    let texts: Vec<String> = set.candidates(last.map(ip)).map(|address| address.to_string()).collect();
    texts.join(" ").replace("10.1.", "")
}

#[test]
fn what_is_not_given_is_filled_in() {
    for (subnet, want, capacity) in [
        ("10.1.2.0/24", "10.1.2.1-10.1.2.254", 253),
        ("10.1.2.0/30", "10.1.2.1-10.1.2.2", 1),
        ("2001:db8::/126", "2001:db8::1-2001:db8::3", 2),
        ("0.0.0.0/0", "0.0.0.1-255.255.255.254", (1 << 32) - 3),
        ("::/0", "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", u128::MAX - 1),
    ] {
        let set = set(&[given(subnet)]);
        assert_eq!((set.to_string(), set.capacity()), (want.to_owned(), capacity), "{subnet}");
    }
}

#[test]
fn what_lies_outside_is_refused() {
    for (range, want) in [
        (given("2001:db8::/127"), "Network 2001:db8::/127 too small to allocate from"),
        (between("10.1.2.0/24", "10.1.2.9", "10.1.2.8"), "RangeStart 10.1.2.9 not in network 10.1.2.0/24"),
        (between("10.1.2.0/24", "10.1.2.255", ""), "RangeStart 10.1.2.255 not in network 10.1.2.0/24"),
        (between("10.1.2.0/24", "2001:db8::1", ""), "RangeStart 2001:db8::1 not in network 10.1.2.0/24"),
        (between("10.1.2.0/24", "", "10.1.2.0"), "RangeEnd 10.1.2.0 not in network 10.1.2.0/24"),
        (between("10.1.2.0/24", "", "2001:db8::1"), "RangeEnd 2001:db8::1 not in network 10.1.2.0/24"),
    ] {
        assert_eq!(RangeSet::new(&[range]).expect_err("refused").to_string(), want);
    }
}

#[test]
fn a_gateway_may_lie_anywhere_and_is_skipped_in_its_own_range_only() {
    let outside = GivenRange { gateway: Some(ip("192.0.2.1")), ..given("10.1.2.0/29") };
    assert_eq!(order(&set(&[outside]), None), "2.1 2.2 2.3 2.4 2.5 2.6");
    let crossed = GivenRange { gateway: Some(ip("10.1.2.2")), ..given("10.1.3.0/29") };
    assert_eq!(order(&set(&[given("10.1.2.0/30"), crossed]), None), "2.2 3.1 3.2 3.3 3.4 3.5 3.6");
    let set = set(&[given("10.1.2.0/24")]);
    assert!(set.is_gateway(ip("10.1.2.1")) && !set.is_gateway(ip("10.1.2.2")) && !set.is_gateway(ip("10.1.3.1")));
}

#[test]
fn candidates_go_round_and_end_with_the_one_given_last() {
    let second = GivenRange { gateway: Some(ip("10.1.3.3")), ..given("10.1.3.0/29") };
    let set = set(&[given("10.1.2.0/29"), second]);
    for (last, want) in [
        (None, "2.2 2.3 2.4 2.5 2.6 3.1 3.2 3.4 3.5 3.6"),
        (Some("10.1.2.3"), "2.4 2.5 2.6 3.1 3.2 3.4 3.5 3.6 2.2 2.3"),
        (Some("10.1.2.6"), "3.1 3.2 3.4 3.5 3.6 2.2 2.3 2.4 2.5 2.6"),
        (Some("10.1.3.6"), "2.2 2.3 2.4 2.5 2.6 3.1 3.2 3.4 3.5 3.6"),
        (Some("10.1.3.3"), "3.4 3.5 3.6 2.2 2.3 2.4 2.5 2.6 3.1 3.2"),
        (Some("10.1.9.9"), "2.2 2.3 2.4 2.5 2.6 3.1 3.2 3.4 3.5 3.6"),
        (Some("2001:db8::1"), "2.2 2.3 2.4 2.5 2.6 3.1 3.2 3.4 3.5 3.6"),
    ] {
        assert_eq!(order(&set, last), want, "after {last:?}");
    }
}

#[test]
fn the_end_of_the_address_space_is_an_end() {
    let v4 = set(&[between("255.255.255.0/24", "255.255.255.254", "255.255.255.255")]);
    assert_eq!(order(&v4, None), "255.255.255.254 255.255.255.255");
    assert_eq!(order(&v4, Some("255.255.255.255")), "255.255.255.254 255.255.255.255");
    let top = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let v6 = set(&[between("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126", top, "")]);
    assert_eq!(order(&v6, Some(top)), top);
}

#[test]
fn an_address_is_reported_with_the_prefix_and_the_gateway_of_its_range() {
    let config = set(&[given("10.1.2.0/29"), given("10.1.4.0/22")]).ip_config(ip("10.1.5.9"));
    assert_eq!((config.address.to_string(), config.gateway), ("10.1.5.9/22".to_owned(), Some(ip("10.1.4.1"))));
}

proptest! {
    /// The model writes all addresses in a row, turns the row, and strikes the gateways out.
    #[test]
    fn the_order_is_that_of_a_row_that_is_turned(
        spans in prop::collection::vec((0_u32..6, 0_u32..8, 0_u32..16), 1..4),
        last in prop::option::of((0_u32..4, 0_u32..16)),
    ) {
        let at = |range: u32, offset: u32| IpAddr::V4((0x0a01_0000 + range * 16 + offset).into());
        let mut ranges = Vec::new();
        let mut row = Vec::new();
        for (index, &(start, length, gateway)) in (0..).zip(&spans) {
            let subnet = Cidr::new(at(index, 0), 28).expect("a prefix of IPv4");
            ranges.push(GivenRange {
                subnet: Some(Subnet::Plain(subnet)),
                start: Some(at(index, start)),
                end: Some(at(index, start + length)),
                gateway: Some(at(index, gateway)),
            });
            row.extend((start..=start + length).map(|offset| (at(index, offset), offset == gateway)));
        }
        let last = last.map(|(range, offset)| at(range, offset));
        if let Some(place) = row.iter().position(|(address, _)| Some(*address) == last) {
            row.rotate_left(place + 1);
        }
        let want: Vec<IpAddr> = row.iter().filter(|(_, gateway)| !gateway).map(|(address, _)| *address).collect();
        let set = set(&ranges);
        prop_assert_eq!(set.capacity(), want.len() as u128);
        prop_assert_eq!(set.candidates(last).collect::<Vec<_>>(), want);
    }
}
