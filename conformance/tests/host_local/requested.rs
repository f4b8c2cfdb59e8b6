//! Addresses that are asked for: CNI_ARGS `IP`, `args.cni.ips`, `runtimeConfig.ips`.

use cni_conformance::Verb;
use cni_conformance::cases::for_each;
use cni_conformance::keys;
use serde_json::{Value, json};

use crate::host_local::setup::{Pool, addresses, leases};

fn dual() -> Pool {
    Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]])
}

#[test]
fn each_of_the_three_sources_is_heard() {
    let in_args = |ips: Value| ("args", json!({"cni": {"ips": ips}}));
    let by_runtime = |ips: Value| ("runtimeConfig", json!({"ips": ips}));
    let none = ("args", json!({}));
    let cases = [
        ("CNI_ARGS", (none.clone(), "IP=10.1.2.99", "10.1.2.99 fd00:1::2")),
        ("CNI_ARGS with a prefix", (none.clone(), "IP=10.1.2.99/32", "10.1.2.99 fd00:1::2")),
        ("CNI_ARGS of IPv6", (none.clone(), "IP=fd00:1::99", "10.1.2.2 fd00:1::99")),
        ("CNI_ARGS in the notation of IPv6", (none.clone(), "IP=::ffff:10.1.2.99", "10.1.2.99 fd00:1::2")),
        ("CNI_ARGS empty", (none.clone(), "IP=", "10.1.2.2 fd00:1::2")),
        ("CNI_ARGS, the last counts", (none, "IP=10.1.2.98;IP=10.1.2.99", "10.1.2.99 fd00:1::2")),
        ("args", (in_args(json!(["10.1.2.99", "fd00:1::99/128"])), "", "10.1.2.99 fd00:1::99")),
        ("args in the other order", (in_args(json!(["fd00:1::99", "10.1.2.99/8"])), "", "10.1.2.99 fd00:1::99")),
        ("runtimeConfig", (by_runtime(json!(["10.1.2.99/24"])), "", "10.1.2.99 fd00:1::2")),
        ("the same twice", (by_runtime(json!(["10.1.2.99", "10.1.2.99/24"])), "IP=10.1.2.99", "10.1.2.99 fd00:1::2")),
        ("two sources", (by_runtime(json!(["fd00:1::99"])), "IP=10.1.2.99", "10.1.2.99 fd00:1::99")),
        ("null", (in_args(json!(null)), "", "10.1.2.2 fd00:1::2")),
    ];
    for_each(cases, |((key, value), args, expected)| {
        let pool = dual().with(key, &value);
        assert_eq!(addresses(&pool.call(Verb::Add, "a").args(args).run().result()), expected);
    });
}

#[test]
fn a_requested_address_moves_the_search_behind_it() {
    let pool = dual();
    pool.call(Verb::Add, "a").args("IP=10.1.2.99").run().expect_success();
    assert_eq!(pool.add("b"), "10.1.2.100 fd00:1::3");
}

#[test]
fn the_network_and_broadcast_addresses_can_be_asked_for_when_the_range_has_them() {
    let pool = Pool::new(
        &json!({"ranges": [[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.0", "rangeEnd": "10.1.2.255"}]]}),
    );
    for (id, address) in [("a", "10.1.2.255"), ("b", "10.1.2.0")] {
        let result = pool.call(Verb::Add, id).args(&format!("IP={address}")).run().result();
        assert_eq!(addresses(&result), address);
    }
}

#[test]
fn an_address_that_is_no_address_is_named_with_its_place() {
    let cases = [
        (
            "CNI_ARGS",
            (json!({}), "IP=zz", 4, r#"ARGS: error parsing value of pair "IP=zz": invalid IP address zz"#, "zz"),
        ),
        ("a list in CNI_ARGS", (json!({}), "IP=10.1.2.3,10.1.2.4", 4, "invalid IP address 10.1.2.3,10.1.2.4", "IP=")),
        (
            "args",
            (json!({"args": {"cni": {"ips": ["10.1.2.9", "x"]}}}), "", 7, "invalid IP address x", "args.cni.ips[1]"),
        ),
        (
            "args with a prefix",
            (
                json!({"args": {"cni": {"ips": ["10.1.2.9/33"]}}}),
                "",
                7,
                "invalid IP address 10.1.2.9/33",
                "args.cni.ips[0]",
            ),
        ),
        (
            "runtimeConfig",
            (
                json!({"runtimeConfig": {"ips": ["010.1.2.9"]}}),
                "",
                7,
                "invalid IP address 010.1.2.9",
                "runtimeConfig.ips[0]",
            ),
        ),
        (
            "a zone",
            (
                json!({"runtimeConfig": {"ips": ["fe80::1%eth0"]}}),
                "",
                7,
                "invalid IP address fe80::1%eth0",
                "runtimeConfig.ips[0]",
            ),
        ),
        (
            "a blank",
            (
                json!({"runtimeConfig": {"ips": [" 10.1.2.9"]}}),
                "",
                7,
                "invalid IP address  10.1.2.9",
                "runtimeConfig.ips[0]",
            ),
        ),
        (
            "empty",
            (json!({"args": {"cni": {"ips": [""]}}}), "", 7, "invalid IP address: none is given", "args.cni.ips[0]"),
        ),
        // Go crashes.
        (
            "null",
            (
                json!({"runtimeConfig": {"ips": [null]}}),
                "",
                7,
                "invalid IP address: none is given",
                "runtimeConfig.ips[0]",
            ),
        ),
    ];
    for_each(cases, |(keys, args, code, text, place)| {
        let mut pool = dual();
        keys::set(&mut pool.config, &keys);
        pool.refused_at_once(&pool.call(Verb::Add, "a").args(args), code, &[text, place]);
    });
}

/// In Go the choice between two of one set is random.
#[test]
fn an_unavailable_address_is_refused_and_the_others_are_released() {
    let cases = [
        ("the gateway", ("10.1.2.1", "failed to allocate for range 0: requested ip 10.1.2.1 is subnet's gateway")),
        (
            "the gateway of IPv6",
            ("fd00:1::1", "failed to allocate for range 1: requested ip fd00:1::1 is subnet's gateway"),
        ),
        ("of no set", ("10.9.9.9", "failed to allocate all requested IPs: 10.9.9.9")),
        ("behind the range", ("10.1.2.255", "failed to allocate all requested IPs: 10.1.2.255")),
        ("a network's address", ("10.1.2.0", "failed to allocate all requested IPs: 10.1.2.0")),
    ];
    for_each(cases, |(address, text)| {
        let pool = dual();
        pool.add("other");
        pool.refused(&pool.call(Verb::Add, "a").args(&format!("IP={address}")), 102, &[text]);
    });
    let pool = dual().with("runtimeConfig", &json!({"ips": ["10.1.2.9", "10.1.2.12", "10.7.7.7"]}));
    let error = pool.refused(&pool.call(Verb::Add, "a"), 102, &["failed to allocate all requested IPs: "]);
    assert_eq!(error.msg, "failed to allocate all requested IPs: 10.1.2.12 10.7.7.7");
}

/// The error also tells who has it.
#[test]
fn an_address_that_somebody_has_is_refused() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/29", "10.1.3.0/29"]]);
    pool.call(Verb::Add, "holder").args("IP=10.1.2.4").run().expect_success();
    let text = "requested IP address 10.1.2.4 is not available in range set 10.1.2.1-10.1.2.6,10.1.3.1-10.1.3.6";
    pool.refused(&pool.call(Verb::Add, "a").args("IP=10.1.2.4"), 102, &[text, "holder", "eth0"]);
    pool.del("holder");
    pool.call(Verb::Add, "a").args("IP=10.1.2.4").run().expect_success();
    assert_eq!(leases().into_keys().collect::<Vec<_>>(), ["10.1.2.4"]);
}

#[test]
fn the_ifname_tells_the_requests_of_one_container_apart() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    pool.call(Verb::Add, "a").args("IP=10.1.2.9").run().expect_success();
    pool.call(Verb::Add, "a").ifname("eth1").args("IP=10.1.2.10").run().expect_success();
    pool.refused(&pool.call(Verb::Add, "a").ifname("eth1").args("IP=10.1.2.9"), 105, &["10.1.2.9 is not available"]);
    pool.del("a");
    assert_eq!(leases().into_keys().collect::<Vec<_>>(), ["10.1.2.10"]);
}
