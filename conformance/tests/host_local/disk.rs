//! The files: names, contents and modes to the byte, since Go plugins work on the same folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cni_conformance::Verb;
use serde_json::json;

use crate::host_local::setup::{LEASES, Pool, files};

fn expected(files: &[(&str, u32, &str)]) -> BTreeMap<String, (u32, String)> {
    files.iter().map(|(name, mode, content)| ((*name).to_owned(), (*mode, (*content).to_owned()))).collect()
}

/// What an administrator or a Go plugin finds: nothing else lies there but one folder that is ours.
#[test]
fn an_add_writes_the_lease_the_last_address_and_the_lock() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["2001:db8:0:1::/64"]]);
    pool.add("container-1.a_b");
    let all = expected(&[
        ("10.1.2.2", 0o600, "container-1.a_b\r\neth0"),
        ("2001:db8:0:1::2", 0o600, "container-1.a_b\r\neth0"),
        ("last_reserved_ip.0", 0o600, "10.1.2.2"),
        ("last_reserved_ip.1", 0o600, "2001:db8:0:1::2"),
        ("lock", 0o750, ""),
    ]);
    assert_eq!(files(Path::new(LEASES)), all);
    let folders: Vec<_> = fs::read_dir(LEASES)
        .expect("list the leases")
        .map(|entry| entry.expect("read the list"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(folders, [".cni-plugins-rs"]);
    let mode = fs::metadata(LEASES).expect("stat the folder").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755);
}

/// The name of an IPv6 lease is the address as RFC 5952 writes it, colons included.
#[test]
fn names_are_addresses_in_their_short_form() {
    let pool = Pool::of_subnets(&[&["2001:0DB8:0000:0001::/64"]]);
    for (id, requested) in
        [("a", "2001:db8:0:1:0:0:0:A"), ("b", "2001:DB8:0:1:0:5::"), ("c", "2001:0db8:0:1:ffff:0:0:1")]
    {
        pool.call(Verb::Add, id).args(&format!("IP={requested}")).run().expect_success();
    }
    let names: Vec<String> = crate::host_local::setup::leases().into_keys().collect();
    assert_eq!(names, ["2001:db8:0:1:0:5::", "2001:db8:0:1::a", "2001:db8:0:1:ffff::1"]);
}

/// A runtime may give the interface any name that the kernel takes.
#[test]
fn the_lease_says_the_container_and_the_interface() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    let id = "x".repeat(200);
    pool.call(Verb::Add, &id).ifname("a-b_c.d@e#f").run().expect_success();
    assert_eq!(crate::host_local::setup::leases()["10.1.2.2"], format!("{id}\r\na-b_c.d@e#f"));
    pool.call(Verb::Del, &id).ifname("a-b_c.d@e#f").run().expect_success();
    assert_eq!(crate::host_local::setup::leases().len(), 0);
}

#[test]
fn del_removes_the_lease_and_nothing_else() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    pool.add("a");
    pool.add("b");
    pool.del("a");
    let left =
        expected(&[("10.1.2.3", 0o600, "b\r\neth0"), ("last_reserved_ip.0", 0o600, "10.1.2.3"), ("lock", 0o750, "")]);
    assert_eq!(files(Path::new(LEASES)), left);
}

/// Every lease moves the search, requested ones included, and the file is written over as a whole.
#[test]
fn the_last_address_is_rewritten_on_every_lease() {
    let pool = Pool::of_subnets(&[&["10.1.0.0/16"]]);
    for (id, args, last) in
        [("a", "IP=10.1.200.100", "10.1.200.100"), ("b", "IP=10.1.0.9", "10.1.0.9"), ("c", "", "10.1.0.10")]
    {
        pool.call(Verb::Add, id).args(args).run().expect_success();
        assert_eq!(files(Path::new(LEASES))["last_reserved_ip.0"], (0o600, last.to_owned()));
    }
}

/// An IPAM plugin must not undo what an administrator did.
#[test]
fn modes_and_files_that_are_there_stay() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    fs::create_dir(LEASES).expect("create the folder");
    fs::set_permissions(LEASES, fs::Permissions::from_mode(0o700)).expect("set its mode");
    fs::write(Path::new(LEASES).join("lock"), "words").expect("write the lock");
    fs::write(Path::new(LEASES).join("notes.txt"), "of the administrator").expect("write a file");
    fs::create_dir(Path::new(LEASES).join("backup")).expect("create a folder");
    fs::write(Path::new(LEASES).join("backup/10.1.2.2"), "other\r\neth0").expect("write a copy");
    pool.add("a");
    pool.del("a");
    let found = files(Path::new(LEASES));
    assert_eq!((found["lock"].1.as_str(), found["notes.txt"].1.as_str()), ("words", "of the administrator"));
    assert!(Path::new(LEASES).join("backup/10.1.2.2").exists());
    assert_eq!(fs::metadata(LEASES).expect("stat the folder").permissions().mode() & 0o7777, 0o700);
}

/// The same names and contents for every version of the configuration.
#[test]
fn the_version_of_the_configuration_does_not_show_on_disk() {
    let mut seen = Vec::new();
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"], &["fd00:1::/64"]]).with("cniVersion", &json!(version));
        pool.result("a");
        seen.push(files(Path::new(LEASES)));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
    assert_eq!(seen[0].len(), 5);
}
