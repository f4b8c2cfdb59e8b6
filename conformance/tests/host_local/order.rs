//! `subnet`, `rangeStart`, `rangeEnd`, `gateway`: which addresses there are, and in which order they go.

use cni_conformance::Verb;
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::host_local::setup::{Pool, write};

/// Adds containers until nothing is left, and returns the addresses in their order.
#[track_caller]
fn drained(pool: &Pool) -> Vec<String> {
    let mut seen = Vec::new();
    for number in 0..64 {
        let outcome = pool.call(Verb::Add, &format!("c{number}")).run();
        if !outcome.succeeded() {
            outcome.expect_error(102, "no IP addresses available in range set: ");
            return seen;
        }
        seen.push(crate::host_local::setup::addresses(&outcome.result()));
    }
    panic!("more than 64 addresses: {seen:?}");
}

/// Returns the network and broadcast address of IPv4 and the gateway, which nobody gets unless they are
/// asked for; IPv6 has no broadcast address.
#[test]
fn addresses_go_in_their_order_without_those_of_network_broadcast_and_gateway() {
    let cases = [
        ("a small subnet", (json!([{"subnet": "10.1.2.0/29"}]), "10.1.2.2 10.1.2.3 10.1.2.4 10.1.2.5 10.1.2.6")),
        ("the smallest", (json!([{"subnet": "10.1.2.0/30"}]), "10.1.2.2")),
        ("the smallest of IPv6", (json!([{"subnet": "fd00:1::/126"}]), "fd00:1::2 fd00:1::3")),
        (
            "from a start",
            (json!([{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.252"}]), "10.1.2.252 10.1.2.253 10.1.2.254"),
        ),
        ("to an end", (json!([{"subnet": "10.1.2.0/24", "rangeEnd": "10.1.2.4"}]), "10.1.2.2 10.1.2.3 10.1.2.4")),
        (
            "one address",
            (json!([{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.9"}]), "10.1.2.9"),
        ),
        (
            "another gateway",
            (json!([{"subnet": "10.1.2.0/29", "gateway": "10.1.2.4"}]), "10.1.2.1 10.1.2.2 10.1.2.3 10.1.2.5 10.1.2.6"),
        ),
        ("a gateway elsewhere", (json!([{"subnet": "10.1.2.0/30", "gateway": "10.9.9.9"}]), "10.1.2.1 10.1.2.2")),
        (
            "a gateway of another family",
            (json!([{"subnet": "10.1.2.0/30", "gateway": "fd00::1"}]), "10.1.2.1 10.1.2.2"),
        ),
        ("the network's address", (json!([{"subnet": "10.1.2.0/30", "rangeStart": "10.1.2.0"}]), "10.1.2.0 10.1.2.2")),
        ("the broadcast address", (json!([{"subnet": "10.1.2.0/30", "rangeEnd": "10.1.2.3"}]), "10.1.2.2 10.1.2.3")),
        (
            "the first of IPv6",
            (json!([{"subnet": "fd00:1::/126", "rangeStart": "fd00:1::"}]), "fd00:1:: fd00:1::2 fd00:1::3"),
        ),
        (
            "two ranges",
            (
                json!([{"subnet": "10.1.2.0/29"}, {"subnet": "10.1.3.0/29", "gateway": "10.1.3.3"}]),
                "10.1.2.2 10.1.2.3 10.1.2.4 10.1.2.5 10.1.2.6 10.1.3.1 10.1.3.2 10.1.3.4 10.1.3.5 10.1.3.6",
            ),
        ),
        (
            "two ranges of a subnet, in the order given",
            (
                json!([{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.20", "rangeEnd": "10.1.2.21"},
                    {"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.10", "rangeEnd": "10.1.2.11"}]),
                "10.1.2.20 10.1.2.21 10.1.2.10 10.1.2.11",
            ),
        ),
        (
            "a range's gateway is another range's address",
            (
                json!([{"subnet": "10.1.2.0/29", "gateway": "10.1.3.2"}, {"subnet": "10.1.3.0/30"}]),
                "10.1.2.1 10.1.2.2 10.1.2.3 10.1.2.4 10.1.2.5 10.1.2.6 10.1.3.2",
            ),
        ),
        (
            "across a byte",
            (
                json!([{"subnet": "10.1.0.0/16", "rangeStart": "10.1.2.254", "rangeEnd": "10.1.3.1"}]),
                "10.1.2.254 10.1.2.255 10.1.3.0 10.1.3.1",
            ),
        ),
        (
            "IPv4 in the notation of IPv6",
            (
                json!([{"subnet": "10.1.2.0/24", "rangeStart": "::ffff:10.1.2.8", "rangeEnd": "::ffff:10.1.2.9"}]),
                "10.1.2.8 10.1.2.9",
            ),
        ),
        ("zeros before the prefix", (json!([{"subnet": "10.1.2.0/030"}]), "10.1.2.2")),
        ("the whole of IPv4", (json!([{"subnet": "0.0.0.0/0", "rangeEnd": "0.0.0.3"}]), "0.0.0.2 0.0.0.3")),
    ];
    for_each(cases, |(set, expected)| {
        let pool = Pool::new(&json!({"ranges": [set]}));
        assert_eq!(drained(&pool).join(" "), expected);
    });
}

#[test]
fn the_result_tells_the_prefix_of_the_subnet_and_the_gateway_of_the_range() {
    let set = json!([
        {"subnet": "10.1.2.0/29", "rangeEnd": "10.1.2.2"},
        {"subnet": "10.1.3.0/28", "rangeEnd": "10.1.3.1", "gateway": "10.1.9.9"},
    ]);
    let pool = Pool::new(&json!({"ranges": [set, [{"subnet": "fd00:1::/64"}]]}));
    let expected = [("10.1.2.2/29", "10.1.2.1", "fd00:1::2/64"), ("10.1.3.1/28", "10.1.9.9", "fd00:1::3/64")];
    for (id, (address, gateway, v6)) in ["a", "b"].iter().zip(expected) {
        let ips = json!([{"address": address, "gateway": gateway}, {"address": v6, "gateway": "fd00:1::1"}]);
        assert_eq!(pool.result(id)["ips"], ips);
    }
}

/// An address that was given back is the last to be given again, so that nobody takes its new owner for
/// the old one.
#[test]
fn the_search_goes_on_behind_the_address_given_last_and_round() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/29", "10.1.3.0/30"]]);
    assert_eq!(["a", "b", "c"].map(|id| pool.add(id)), ["10.1.2.2", "10.1.2.3", "10.1.2.4"]);
    pool.del("a");
    pool.del("c");
    assert_eq!(["d", "e", "f"].map(|id| pool.add(id)), ["10.1.2.5", "10.1.2.6", "10.1.3.2"]);
    assert_eq!(["g", "h"].map(|id| pool.add(id)), ["10.1.2.2", "10.1.2.4"]);
    pool.call(Verb::Add, "i").run().expect_error(102, "10.1.2.1-10.1.2.6,10.1.3.1-10.1.3.2");
    pool.del("h");
    assert_eq!(pool.add("i"), "10.1.2.4", "the only one, and the one given last");
}

#[test]
fn the_search_begins_again_when_the_address_given_last_is_not_known() {
    let contents = [
        ("none", None),
        ("empty", Some("")),
        ("nonsense", Some("zz")),
        ("a line end behind it", Some("10.1.2.4\n")),
        ("of no range", Some("10.9.9.9")),
        ("of the other family", Some("fd00::1")),
    ];
    for_each(contents, |content| {
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
        if let Some(content) = content {
            write("last_reserved_ip.0", content);
        }
        assert_eq!(pool.add("a"), "10.1.2.2");
    });
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    write("last_reserved_ip.0", "10.1.2.4");
    assert_eq!(pool.add("a"), "10.1.2.5");
}

#[test]
fn the_end_of_a_range_leads_to_the_next_one_and_that_of_the_last_to_the_first() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/29", "10.1.3.0/29"]]);
    write("last_reserved_ip.0", "10.1.2.6");
    assert_eq!(pool.add("a"), "10.1.3.2");
    write("last_reserved_ip.0", "10.1.3.6");
    assert_eq!(pool.add("b"), "10.1.2.2");
}

/// The old form of a configuration.
#[test]
fn the_flat_form_is_a_range_set_of_its_own() {
    let flat =
        json!({"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.50", "rangeEnd": "10.1.2.51", "gateway": "10.1.2.254"});
    let pool = Pool::new(&flat);
    assert_eq!(pool.result("a")["ips"], json!([{"address": "10.1.2.50/24", "gateway": "10.1.2.254"}]));
    assert_eq!(pool.add("b"), "10.1.2.51");
    pool.refused(&pool.call(Verb::Add, "c"), 102, &["10.1.2.50-10.1.2.51", "2 of 2"]);
}

/// Without `subnet` the other three keys of the flat form mean nothing, even when they are no addresses.
#[test]
fn the_flat_form_needs_its_subnet() {
    let ipam: Value = json!({
        "rangeStart": "10.9.9.50", "rangeEnd": "zz", "gateway": "10.9.9.1", "ranges": [[{"subnet": "10.1.2.0/24"}]],
    });
    assert_eq!(Pool::new(&ipam).add("a"), "10.1.2.2");
}

#[test]
fn a_full_set_says_how_full_it_is() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/30", "10.1.3.0/30"]]);
    pool.add("a");
    pool.add("b");
    let error = pool.refused(&pool.call(Verb::Add, "c"), 102, &["/run/cni/net1", "2 of 2 addresses", "2 containers"]);
    let text =
        "failed to allocate for range 0: no IP addresses available in range set: 10.1.2.1-10.1.2.2,10.1.3.1-10.1.3.2";
    assert_eq!(error.msg, text);
}
