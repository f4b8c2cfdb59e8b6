//! DEL: by container and interface, whatever the rest of the request says.

use std::fs;
use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{State, Verb, state};
use serde_json::json;

use crate::host_local::setup::{LEASES, Pool, leases, write};

fn names() -> String {
    leases().into_keys().collect::<Vec<_>>().join(" ")
}

#[test]
fn all_leases_of_the_interface_go_and_no_other() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    pool.add("a");
    pool.add("ab");
    pool.call(Verb::Add, "a").ifname("eth1").run().expect_success();
    pool.call(Verb::Add, "a").ifname("eth").run().expect_success();
    pool.del("a");
    assert_eq!(names(), "10.1.2.3 10.1.2.4 10.1.2.5 fd00:1::3 fd00:1::4 fd00:1::5");
    pool.call(Verb::Del, "a").ifname("eth1").run().expect_success();
    assert_eq!(names(), "10.1.2.3 10.1.2.5 fd00:1::3 fd00:1::5");
}

/// Also of sets that the configuration does not have any more.
#[test]
fn the_ranges_of_the_configuration_do_not_matter() {
    let mut pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]);
    pool.add("a");
    pool.config["ipam"]["ranges"] = json!([[{"subnet": "192.168.0.0/24"}]]);
    pool.del("a");
    assert_eq!(names(), "");
}

#[test]
fn what_is_not_there_is_no_error_and_makes_nothing() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    let before = State::of_host(&pool.sandbox);
    for _ in ["once", "again"] {
        pool.del("a");
    }
    state::assert_same(&before, &State::of_host(&pool.sandbox));
    pool.add("a");
    let before = leases();
    pool.del("b");
    pool.call(Verb::Del, "a").ifname("eth1").run().expect_success();
    assert_eq!(leases(), before);
}

/// White space around it does not count; leases of releases that did not write the interface go only when
/// the container has no other.
#[test]
fn leases_that_others_wrote_are_found() {
    let cases = [
        ("as ours", (vec![("10.1.2.9", "a\r\neth0")], "")),
        ("with a line end", (vec![("10.1.2.9", "a\r\neth0\r\n")], "")),
        ("with blanks", (vec![("10.1.2.9", "\n a\r\neth0 \t")], "")),
        ("without an interface", (vec![("10.1.2.9", "a"), ("10.1.2.10", "a\n")], "")),
        (
            "without an interface, beside one of its own",
            (vec![("10.1.2.9", "a"), ("10.1.2.10", "a\r\neth0")], "10.1.2.9"),
        ),
        ("of another interface", (vec![("10.1.2.9", "a\r\neth1")], "10.1.2.9")),
        ("of another container", (vec![("10.1.2.9", "ab\r\neth0"), ("10.1.2.10", "b")], "10.1.2.10 10.1.2.9")),
        ("with another line end", (vec![("10.1.2.9", "a\neth0")], "10.1.2.9")),
        ("of the other case", (vec![("10.1.2.9", "A\r\neth0")], "10.1.2.9")),
        ("in another form of the address", (vec![("fd00:1:0::9", "a\r\neth0")], "")),
    ];
    for_each(cases, |(files, left)| {
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
        for (name, content) in files {
            write(name, content);
        }
        pool.del("a");
        assert_eq!(names(), left);
    });
}

/// A container may be called like an address: Go removes the file of the last address then.
#[test]
fn files_that_are_no_leases_stay_whatever_they_say() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    let id = "10.1.2.2";
    pool.add("other");
    for name in ["notes", "last_reserved_ip.9", "10.1.2.300", "x10.1.2.2"] {
        write(name, id);
    }
    pool.del(id);
    for name in ["notes", "last_reserved_ip.0", "last_reserved_ip.9", "10.1.2.300", "x10.1.2.2", "10.1.2.2"] {
        assert!(Path::new(LEASES).join(name).exists(), "{name}");
    }
}

#[test]
fn neither_namespace_nor_arguments_nor_result_are_needed() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    for (netns, args) in [("", ""), ("/run/netns/never", "garbage"), ("/dev/null", "IP=zz;FOO=bar")] {
        pool.add("a");
        pool.call(Verb::Del, "a").netns(netns).args(args).run().expect_success();
        assert_eq!(names(), "");
    }
}

/// The administrator took the index away, or it is of another machine.
#[test]
fn the_index_is_no_more_than_a_cache() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    pool.add("a");
    pool.add("b");
    fs::remove_dir_all(Path::new(LEASES).join(".cni-plugins-rs")).expect("remove the index");
    pool.del("a");
    assert_eq!(names(), "10.1.2.3");
    pool.call(Verb::Check, "b").run().expect_success();
    fs::remove_file(Path::new(LEASES).join("10.1.2.3")).expect("remove a lease");
    write("10.1.2.77", "b\r\neth0");
    pool.call(Verb::Check, "b").run().expect_success();
    pool.del("b");
    assert_eq!(names(), "");
}
