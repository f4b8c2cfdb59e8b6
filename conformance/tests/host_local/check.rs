//! CHECK: the lease is there. It changes nothing.

use std::fs;
use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{State, Verb, state};
use serde_json::json;

use crate::host_local::setup::{LEASES, Pool, write};

const MISSING: &str = "host-local: Failed to find address added by container a";

#[test]
fn check_finds_the_lease_and_changes_nothing() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    let result = pool.result("a");
    let before = State::of_host(&pool.sandbox);
    pool.call(Verb::Check, "a").run().expect_success();
    let mut config = pool.config.clone();
    config["prevResult"] = result;
    pool.call(Verb::Check, "a").config(&config).run().expect_success();
    state::assert_same(&before, &State::of_host(&pool.sandbox));
}

#[test]
fn check_misses_a_lease_that_is_gone_or_of_another() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    pool.call(Verb::Check, "a").run().expect_error(100, MISSING);
    pool.add("a");
    pool.call(Verb::Check, "a").ifname("eth1").run().expect_error(100, MISSING);
    fs::remove_file(Path::new(LEASES).join("10.1.2.2")).expect("remove the lease");
    pool.call(Verb::Check, "a").run().expect_error(100, MISSING);
    write("10.1.2.2", "b\r\neth0");
    pool.call(Verb::Check, "a").run().expect_error(100, MISSING);
}

#[test]
fn check_on_a_bare_machine_makes_no_folder() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    let before = State::of_host(&pool.sandbox);
    pool.call(Verb::Check, "a").run().expect_error(100, MISSING);
    state::assert_same(&before, &State::of_host(&pool.sandbox));
}

#[test]
fn check_takes_the_leases_that_other_releases_wrote() {
    for_each([("with a line end", "a\r\neth0\r\n"), ("without an interface", "a")], |content| {
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
        write("10.1.2.7", content);
        pool.call(Verb::Check, "a").run().expect_success();
    });
}

/// Go is content with any lease of the container.
#[test]
fn check_wants_a_lease_for_each_address_of_the_result() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    let result = pool.result("a");
    let mut config = pool.config.clone();
    config["prevResult"] = result;
    fs::remove_file(Path::new(LEASES).join("fd00:1::2")).expect("remove a lease");
    let error = pool.call(Verb::Check, "a").config(&config).run().expect_error(100, MISSING);
    assert!(error.details.contains("fd00:1::2"), "{error:?}");
    // An address that another plugin gave is not this one's business.
    pool.call(Verb::Del, "a").run().expect_success();
    let mut config = pool.config.clone();
    config["prevResult"] = pool.result("a");
    config["prevResult"]["ips"].as_array_mut().expect("addresses").push(json!({"address": "192.168.7.7/24"}));
    pool.call(Verb::Check, "a").config(&config).run().expect_success();
}
