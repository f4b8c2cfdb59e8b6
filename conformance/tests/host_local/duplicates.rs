//! One address of a set for one interface of a container.

use cni_conformance::Verb;
use cni_conformance::cases::for_each;
use serde_json::json;

use crate::host_local::setup::{Pool, addresses, leases, write};

#[test]
fn a_second_add_for_the_same_interface_is_refused() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    pool.add("a");
    let text = "failed to allocate for range 0: 10.1.2.2 has been allocated to a, duplicate allocation is not allowed";
    let error = pool.refused(&pool.call(Verb::Add, "a"), 105, &[]);
    assert_eq!(error.msg, text);
    assert_eq!(addresses(&pool.call(Verb::Add, "a").ifname("eth1").run().result()), "10.1.2.3 fd00:1::3");
}

/// Files of releases that did not write the interface: they may be any interface's.
#[test]
fn a_lease_without_an_interface_is_a_duplicate_of_every_interface() {
    for_each([("bare", "a"), ("with a line end", "a\r\n"), ("with blanks", "  a\n")], |content| {
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
        write("10.1.2.7", content);
        for ifname in ["eth0", "eth1"] {
            pool.refused(&pool.call(Verb::Add, "a").ifname(ifname), 105, &["10.1.2.7 has been allocated to a"]);
        }
        assert_eq!(pool.add("b"), "10.1.2.2");
    });
}

#[test]
fn a_lease_of_another_set_is_no_duplicate() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    write("10.9.9.9", "a\r\neth0");
    assert_eq!(pool.add("a"), "10.1.2.2");
    assert_eq!(leases().len(), 2);
}

/// A crash between the lease and its content leaves a file that says nothing: nobody holds it. Go keeps it
/// for ever.
#[test]
fn a_torn_lease_is_free_once_nothing_else_is() {
    for_each([("empty", ""), ("zeros", "\0\0\0\0"), ("blank", " \r\n")], |content| {
        let pool = Pool::of_subnets(&[&["10.1.2.0/29"]]);
        write("10.1.2.3", content);
        let order = ["a", "b", "c", "d", "e"].map(|id| pool.add(id)).join(" ");
        assert_eq!(order, "10.1.2.2 10.1.2.4 10.1.2.5 10.1.2.6 10.1.2.3");
        pool.refused(&pool.call(Verb::Add, "f"), 102, &["no IP addresses available"]);
    });
}

/// Other programs may reserve an address by a file of their own.
#[test]
fn a_file_of_any_other_content_is_taken() {
    for_each([("a word", "reserved"), ("two lines", "not\nours\n"), ("no name", "%&/()=")], |content| {
        let pool = Pool::of_subnets(&[&["10.1.2.0/29"]]);
        write("10.1.2.3", content);
        let order = ["a", "b", "c", "d"].map(|id| pool.add(id)).join(" ");
        assert_eq!(order, "10.1.2.2 10.1.2.4 10.1.2.5 10.1.2.6");
        pool.refused(&pool.call(Verb::Add, "e"), 102, &["no IP addresses available"]);
        pool.refused(&pool.call(Verb::Add, "e").args("IP=10.1.2.3"), 102, &["10.1.2.3 is not available"]);
        assert_eq!(leases()["10.1.2.3"], content);
    });
}

#[test]
fn a_container_in_the_namespace_of_its_addresses_is_refused() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    let _container = pool.sandbox.container("a");
    pool.add("a");
    pool.refused(&pool.call(Verb::Add, "a"), 105, &["has been allocated to a"]);
}

/// The container was restarted under the same name and its DEL was lost: it gets its addresses again. Go
/// refuses it until somebody deletes the files.
#[test]
fn a_container_in_a_new_namespace_gets_its_addresses_again() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    let first = pool.sandbox.container("a");
    let before = pool.add("a");
    first.remove();
    let _second = pool.sandbox.container("a");
    assert_eq!(pool.add("a"), before);
    assert_eq!(leases().len(), 2);
    pool.call(Verb::Check, "a").run().expect_success();
    pool.del("a");
    assert_eq!(leases().len(), 0);
}

#[test]
fn a_requested_address_of_ones_own_earlier_life_is_given_again() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]).with("runtimeConfig", &json!({"ips": ["10.1.2.50"]}));
    let first = pool.sandbox.container("a");
    assert_eq!(pool.add("a"), "10.1.2.50");
    pool.refused(&pool.call(Verb::Add, "a"), 105, &["10.1.2.50 is not available"]);
    first.remove();
    let _second = pool.sandbox.container("a");
    assert_eq!(pool.add("a"), "10.1.2.50");
}
