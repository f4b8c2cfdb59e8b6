//! Every reason to refuse a configuration, in the reference's words.
//!
//! It is refused before the directory is made; the code is 7. DEL ignores what is refused here.

use cni_conformance::Verb;
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::host_local::setup::{Pool, leases};

/// The sections `ipam` that are refused, and the text.
fn sections() -> Vec<(&'static str, (Value, &'static str))> {
    let ranges = |sets: Value| json!({"ranges": sets});
    let range = |keys: Value| json!({"ranges": [[keys]]});
    vec![
        ("nothing", (json!({}), "no IP ranges specified")),
        ("no sets", (ranges(json!([])), "no IP ranges specified")),
        ("null", (ranges(json!(null)), "no IP ranges specified")),
        ("the flat form without subnet", (json!({"rangeStart": "10.1.2.5"}), "no IP ranges specified")),
        ("an empty set", (ranges(json!([[]])), "invalid range set 0: empty range set")),
        (
            "an empty second set",
            (ranges(json!([[{"subnet": "10.1.2.0/24"}], []])), "invalid range set 1: empty range set"),
        ),
        (
            "a range without subnet",
            (range(json!({"rangeStart": "10.1.2.5"})), "invalid range set 0: subnet is missing"),
        ),
        ("an address as subnet", (range(json!({"subnet": "10.1.2.3"})), "invalid CIDR address: 10.1.2.3")),
        ("a flat address as subnet", (json!({"subnet": "10.1.2.3"}), "invalid CIDR address: 10.1.2.3")),
        ("an empty flat subnet", (json!({"subnet": ""}), "invalid CIDR address: ")),
        ("a word as subnet", (range(json!({"subnet": "zz"})), "invalid CIDR address: zz")),
        ("zeros in a subnet", (range(json!({"subnet": "010.1.2.0/24"})), "invalid CIDR address: 010.1.2.0/24")),
        ("a blank in a subnet", (range(json!({"subnet": " 10.1.2.0/24"})), "invalid CIDR address:  10.1.2.0/24")),
        ("a long prefix", (range(json!({"subnet": "10.1.2.0/33"})), "invalid CIDR address: 10.1.2.0/33")),
        ("a negative prefix", (range(json!({"subnet": "10.1.2.0/-1"})), "invalid CIDR address: 10.1.2.0/-1")),
        ("a signed prefix", (range(json!({"subnet": "10.1.2.0/+24"})), "invalid CIDR address: 10.1.2.0/+24")),
        ("a zone in a subnet", (range(json!({"subnet": "fe80::%eth0/64"})), "invalid CIDR address: fe80::%eth0/64")),
        (
            "/31",
            (
                range(json!({"subnet": "10.1.2.0/31"})),
                "invalid range set 0: Network 10.1.2.0/31 too small to allocate from",
            ),
        ),
        (
            "/32",
            (
                range(json!({"subnet": "10.1.2.0/32"})),
                "invalid range set 0: Network 10.1.2.0/32 too small to allocate from",
            ),
        ),
        (
            "/127",
            (
                range(json!({"subnet": "fd00:1::/127"})),
                "invalid range set 0: Network fd00:1::/127 too small to allocate from",
            ),
        ),
        (
            "/128",
            (
                range(json!({"subnet": "fd00:1::1/128"})),
                "invalid range set 0: Network fd00:1::1/128 too small to allocate from",
            ),
        ),
        (
            "mapped",
            (
                range(json!({"subnet": "::ffff:10.1.2.0/120"})),
                "invalid range set 0: subnet is an IPv4 network written as IPv6",
            ),
        ),
        (
            "host bits",
            (
                range(json!({"subnet": "10.1.2.3/24"})),
                "invalid range set 0: Network has host bits set. For a subnet mask of length 24 the network address is 10.1.2.0",
            ),
        ),
        (
            "host bits of IPv6",
            (
                range(json!({"subnet": "fd00:1::3/64"})),
                "invalid range set 0: Network has host bits set. For a subnet mask of length 64 the network address is fd00:1::",
            ),
        ),
        (
            "a start that is none",
            (range(json!({"subnet": "10.1.2.0/24", "rangeStart": "zz"})), "invalid IP address: zz"),
        ),
        (
            "an end that is none",
            (range(json!({"subnet": "10.1.2.0/24", "rangeEnd": "10.1.2"})), "invalid IP address: 10.1.2"),
        ),
        (
            "a gateway that is none",
            (range(json!({"subnet": "10.1.2.0/24", "gateway": "10.1.2.1/24"})), "invalid IP address: 10.1.2.1/24"),
        ),
        (
            "a flat gateway that is none",
            (json!({"subnet": "10.1.2.0/24", "gateway": "01.1.2.1"}), "invalid IP address: 01.1.2.1"),
        ),
        (
            "a start elsewhere",
            (
                range(json!({"subnet": "10.1.2.0/24", "rangeStart": "10.1.3.1"})),
                "invalid range set 0: RangeStart 10.1.3.1 not in network 10.1.2.0/24",
            ),
        ),
        (
            "a start of the other family",
            (
                range(json!({"subnet": "10.1.2.0/24", "rangeStart": "fd00::1"})),
                "invalid range set 0: RangeStart fd00::1 not in network 10.1.2.0/24",
            ),
        ),
        (
            "a start behind the end",
            (
                range(json!({"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.8"})),
                "invalid range set 0: RangeStart 10.1.2.9 not in network 10.1.2.0/24",
            ),
        ),
        (
            "an end elsewhere",
            (
                range(json!({"subnet": "10.1.2.0/24", "rangeEnd": "10.1.3.1"})),
                "invalid range set 0: RangeEnd 10.1.3.1 not in network 10.1.2.0/24",
            ),
        ),
        (
            "an end below the network",
            (
                range(json!({"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.4", "rangeEnd": "10.1.1.1"})),
                "invalid range set 0: RangeStart 10.1.2.4 not in network 10.1.2.0/24",
            ),
        ),
        (
            "both families in a set",
            (
                ranges(json!([[{"subnet": "10.1.2.0/24"}, {"subnet": "fd00:1::/64"}]])),
                "invalid range set 0: mixed address families",
            ),
        ),
        (
            "ranges that overlap",
            (
                ranges(json!([[{"subnet": "10.1.2.0/24"}, {"subnet": "10.1.0.0/16"}]])),
                "invalid range set 0: subnets 10.1.2.1-10.1.2.254 and 10.1.0.1-10.1.255.254 overlap",
            ),
        ),
        (
            "a range twice in the second set",
            (
                ranges(json!([[{"subnet": "fd00:1::/64"}], [{"subnet": "10.1.2.0/24"}, {"subnet": "10.1.2.0/24"}]])),
                "invalid range set 1: subnets 10.1.2.1-10.1.2.254 and 10.1.2.1-10.1.2.254 overlap",
            ),
        ),
        (
            "sets that overlap",
            (
                ranges(json!([[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.3.0/24"}], [{"subnet": "10.1.0.0/16"}]])),
                "range set 0 overlaps with 2",
            ),
        ),
        (
            "the flat form overlaps",
            (json!({"subnet": "10.1.2.0/24", "ranges": [[{"subnet": "10.1.2.0/25"}]]}), "range set 0 overlaps with 1"),
        ),
        (
            "a route without a prefix",
            (json!({"subnet": "10.1.2.0/24", "routes": [{"dst": "10.9.0.0"}]}), "invalid CIDR address: 10.9.0.0"),
        ),
        ("a route to nowhere", (json!({"subnet": "10.1.2.0/24", "routes": [{"dst": ""}]}), "invalid CIDR address: ")),
        (
            "a router that is none",
            (
                json!({"subnet": "10.1.2.0/24", "routes": [{"dst": "10.9.0.0/16", "gw": "zz"}]}),
                "invalid IP address: zz",
            ),
        ),
    ]
}

#[test]
fn a_section_that_cannot_be_used_is_refused_in_the_references_words() {
    for_each(sections(), |(ipam, text)| {
        let pool = Pool::new(&ipam);
        pool.refused_at_once(&pool.call(Verb::Add, "a"), 7, &[text]);
    });
}

#[test]
fn check_and_status_refuse_what_add_refuses() {
    for_each(sections(), |(ipam, text)| {
        let pool = Pool::new(&ipam).with("cniVersion", &json!("1.1.0"));
        for verb in [Verb::Check, Verb::Status] {
            pool.refused_at_once(&pool.call(verb, "a"), 7, &[text]);
        }
    });
}

/// Go fails on any of them, and keeps the address.
#[test]
fn del_releases_whatever_became_of_the_configuration() {
    for_each(sections(), |(ipam, _)| {
        let mut pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
        pool.add("a");
        pool.config["ipam"] = Pool::new(&ipam).config["ipam"].clone();
        pool.del("a");
        assert_eq!(leases().len(), 0);
    });
}

/// The value's place is told, since there may be many.
#[test]
fn a_text_that_cannot_be_read_is_reported_with_its_place() {
    let ok = json!({"subnet": "10.1.2.0/24"});
    let cases = [
        (
            "ranges",
            (json!({"ranges": [[ok], [{"subnet": "10.1.3.0/24"}, {"subnet": "zz"}]]}), "ipam.ranges[1][1].subnet"),
        ),
        ("flat", (json!({"subnet": "10.1.2.0/24", "rangeEnd": "zz"}), "ipam.rangeEnd")),
        (
            "routes",
            (json!({"subnet": "10.1.2.0/24", "routes": [{"dst": "10.9.0.0/16"}, {"dst": "zz"}]}), "ipam.routes[1].dst"),
        ),
        (
            "a router",
            (json!({"subnet": "10.1.2.0/24", "routes": [{"dst": "10.9.0.0/16", "gw": "zz"}]}), "ipam.routes[0].gw"),
        ),
    ];
    for_each(cases, |(ipam, place)| {
        let pool = Pool::new(&ipam);
        pool.refused_at_once(&pool.call(Verb::Add, "a"), 7, &["zz", place]);
    });
    let pool = Pool::of_subnets(&[])
        .with("runtimeConfig", &json!({"ipRanges": [[{"subnet": "10.1.2.0/24", "gateway": "zz"}]]}));
    pool.refused_at_once(
        &pool.call(Verb::Add, "a"),
        7,
        &["invalid IP address: zz", "runtimeConfig.ipRanges[0][0].gateway"],
    );
}

#[test]
fn without_an_ipam_section_nothing_can_be_done() {
    for ipam in [None, Some(json!(null))] {
        let mut pool = Pool::of_subnets(&[]);
        match &ipam {
            None => drop(pool.config.as_object_mut().expect("an object").remove("ipam")),
            Some(null) => pool.config["ipam"] = null.clone(),
        }
        pool.refused_at_once(&pool.call(Verb::Add, "a"), 7, &["IPAM config missing 'ipam' key"]);
    }
}

/// The runtime's sets count first, so the numbers of the others move.
#[test]
fn sets_are_counted_from_those_of_the_runtime() {
    let runtime = json!({"ipRanges": [[{"subnet": "10.1.5.0/24"}]]});
    let pool = Pool::new(&json!({"subnet": "10.1.2.0/31"})).with("runtimeConfig", &runtime);
    pool.refused_at_once(&pool.call(Verb::Add, "a"), 7, &["invalid range set 1: Network 10.1.2.0/31 too small"]);
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["10.1.5.0/25"]]).with("runtimeConfig", &runtime);
    pool.refused_at_once(&pool.call(Verb::Add, "a"), 7, &["range set 0 overlaps with 2"]);
}
