//! `ranges` with several sets, combined with the flat form and `runtimeConfig.ipRanges`: one address of each.

use cni_conformance::Verb;
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::host_local::setup::{Pool, leases};

#[test]
fn each_set_gives_one_address_in_the_order_of_the_sets() {
    let pool =
        Pool::of_subnets(&[&["fd00:1::/64"], &["10.1.2.0/24"], &["10.1.3.0/24", "10.1.4.0/24"], &["fd00:2::/64"]]);
    assert_eq!(pool.add("a"), "fd00:1::2 10.1.2.2 10.1.3.2 fd00:2::2");
    assert_eq!(pool.add("b"), "fd00:1::3 10.1.2.3 10.1.3.3 fd00:2::3");
}

/// First the runtime's, then the flat form, then `ranges`: the number of a set names its last address.
#[test]
fn the_runtimes_sets_come_first_then_the_flat_form_then_ranges() {
    let ipam = json!({"subnet": "10.1.2.0/24", "ranges": [[{"subnet": "10.1.3.0/24"}]]});
    let pool = Pool::new(&ipam)
        .with("runtimeConfig", &json!({"ipRanges": [[{"subnet": "10.1.5.0/24"}], [{"subnet": "fd00:1::/64"}]]}));
    assert_eq!(pool.add("a"), "10.1.5.2 fd00:1::2 10.1.2.2 10.1.3.2");
    let files = crate::host_local::setup::files(std::path::Path::new(crate::host_local::setup::LEASES));
    for (set, address) in ["10.1.5.2", "fd00:1::2", "10.1.2.2", "10.1.3.2"].iter().enumerate() {
        assert_eq!(files[&format!("last_reserved_ip.{set}")].1, *address);
    }
}

#[test]
fn the_runtimes_sets_suffice() {
    let range = json!({
        "subnet": "10.1.5.0/24", "rangeStart": "10.1.5.9", "rangeEnd": "10.1.5.9", "gateway": "10.1.5.200",
    });
    let pool = Pool::new(&json!({})).with("runtimeConfig", &json!({"ipRanges": [[range]]}));
    assert_eq!(pool.result("a")["ips"], json!([{"address": "10.1.5.9/24", "gateway": "10.1.5.200"}]));
}

#[test]
fn empty_and_null_lists_of_the_runtime_are_ignored() {
    let given: [(&str, Value); 4] = [
        ("null", json!(null)),
        ("empty", json!({})),
        ("null ranges", json!({"ipRanges": null, "ips": null})),
        ("empty ranges", json!({"ipRanges": [], "ips": []})),
    ];
    for_each(given, |runtime_config| {
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]).with("runtimeConfig", &runtime_config);
        assert_eq!(pool.add("a"), "10.1.2.2");
    });
}

/// All or nothing, and the container that has all keeps it.
#[test]
fn when_one_set_is_exhausted_the_others_are_released() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["10.1.3.0/30"], &["fd00:1::/64"]]);
    pool.add("a");
    let before = leases();
    assert_eq!(before.len(), 3);
    pool.refused(
        &pool.call(Verb::Add, "b"),
        102,
        &["failed to allocate for range 1: no IP addresses available in range set: 10.1.3.1-10.1.3.2"],
    );
    assert_eq!(leases(), before);
    pool.del("a");
    assert_eq!(pool.add("b").split(' ').nth(1), Some("10.1.3.2"));
}

/// Go takes the leases of a first, successful ADD away when a second one for the same container fails.
#[test]
fn an_add_that_fails_takes_no_address_of_an_earlier_one() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["10.1.3.0/30"], &["fd00:1::/64"]]);
    pool.add("a");
    let before = leases();
    let again = pool.call(Verb::Add, "a").args("IP=10.1.2.77").run();
    assert_eq!(leases(), before, "{again}");
    let error = again.expect_error(105, "10.1.3.2 has been allocated to a");
    assert!(error.msg.contains("failed to allocate for range 1"), "{error:?}");
}

#[test]
fn old_versions_take_one_set_of_each_family() {
    for version in ["0.1.0", "0.2.0"] {
        let sets = [("IPv4", ["10.1.2.0/24", "10.1.3.0/24"]), ("IPv6", ["fd00:1::/64", "fd00:2::/64"])];
        for_each(sets, |[one, other]| {
            let pool = Pool::of_subnets(&[&[one], &[other]]).with("cniVersion", &json!(version));
            let text = format!("CNI version {version} does not support more than 1 address per family");
            pool.refused_at_once(&pool.call(Verb::Add, "a"), 7, &[&text]);
        });
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]).with("cniVersion", &json!(version));
        let result = pool.result("a");
        assert_eq!((&result["ip4"]["ip"], &result["ip6"]["ip"]), (&json!("10.1.2.2/24"), &json!("fd00:1::2/64")));
    }
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["10.1.3.0/24"]]).with("cniVersion", &json!("0.3.0"));
    assert_eq!(pool.result("a")["ips"].as_array().map(Vec::len), Some(2));
}
