//! `dataDir`: the directory of the leases.

use std::fs;
use std::path::Path;

use cni_conformance::Verb;
use cni_conformance::cases::for_each;
use cni_conformance::keys;
use serde_json::{Value, json};

use crate::host_local::setup::{LEASES, Pool, files, write};

#[test]
fn leases_lie_below_data_dir_in_a_folder_of_the_networks_name() {
    let default = "/var/lib/cni/networks/net1";
    let cases: [(&str, (Value, &str)); 9] = [
        ("absent", (json!({}), default)),
        ("null", (json!({"dataDir": null}), default)),
        ("empty", (json!({"dataDir": ""}), default)),
        ("a folder that is there", (json!({"dataDir": "/run/cni"}), "/run/cni/net1")),
        ("a folder that is not", (json!({"dataDir": "/run/a/b/c"}), "/run/a/b/c/net1")),
        ("slashes", (json!({"dataDir": "/run//a///"}), "/run/a/net1")),
        ("dots", (json!({"dataDir": "/run/./a/../b/."}), "/run/b/net1")),
        ("dots beyond the root", (json!({"dataDir": "/../../run/a"}), "/run/a/net1")),
        ("relative", (json!({"dataDir": "a/../b"}), "/run/here/b/net1")),
    ];
    for_each(cases, |(keys, folder)| {
        let mut pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
        pool.config["ipam"].as_object_mut().expect("an object").remove("dataDir");
        keys::set(&mut pool.config["ipam"], &keys);
        fs::create_dir("/run/here").expect("create the plugin's folder");
        let there = |verb| pool.call(verb, "a").launched_by(&["/usr/bin/env", "-C", "/run/here"]);
        there(Verb::Add).run().expect_success();
        let names = || files(Path::new(folder)).into_keys().collect::<Vec<_>>();
        assert_eq!(names(), ["10.1.2.2", "last_reserved_ip.0", "lock"]);
        there(Verb::Check).run().expect_success();
        there(Verb::Del).run().expect_success();
        assert_eq!(names(), ["last_reserved_ip.0", "lock"]);
    });
}

/// `dataDir` is cleaned by its text alone, which a symbolic link behind `..` would show.
#[test]
fn a_symbolic_link_to_the_folder_is_followed() {
    let mut pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    fs::create_dir_all("/run/real/deep").expect("create a folder");
    std::os::unix::fs::symlink("/run/real/deep", "/run/link").expect("link the folder");
    pool.config["ipam"]["dataDir"] = json!("/run/link");
    pool.add("a");
    assert!(Path::new("/run/real/deep/net1/10.1.2.2").exists());
    pool.config["ipam"]["dataDir"] = json!("/run/link/..");
    pool.add("a");
    assert!(Path::new("/run/net1/10.1.2.2").exists());
}

/// Otherwise the owner of the folder could make root overwrite any file. The reference overwrites it with the last reserved address.
#[test]
fn a_symbolic_link_in_the_folder_is_not_written_through() {
    for link in ["last_reserved_ip.0", "lock", ".cni-plugins-rs", ".cni-plugins-rs/stamp"] {
        let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
        let link = Path::new("/run/leases/net1").join(link);
        let mut config = pool.config.clone();
        config["ipam"]["dataDir"] = json!("/run/leases");
        fs::create_dir_all(link.parent().expect("a folder")).expect("create the folder");
        fs::write("/run/victim", "precious").expect("write a file");
        std::os::unix::fs::symlink("/run/victim", &link).expect("make a link");
        pool.call(Verb::Add, "a").config(&config).run();
        assert_eq!(fs::read_to_string("/run/victim").expect("read the file"), "precious", "{}", link.display());
    }
}

/// Go reads the whole file into memory, in every ADD and DEL.
#[test]
fn a_lease_without_end_keeps_its_address_and_nobody_waiting() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    for name in ["10.1.2.2", "last_reserved_ip.0"] {
        write(name, "");
        let file = fs::File::options().write(true).open(Path::new(LEASES).join(name)).expect("open the file");
        file.set_len(20 << 30).expect("make a sparse file");
    }
    assert_eq!(pool.add("a"), "10.1.2.3");
    pool.del("a");
    assert!(Path::new(LEASES).join("10.1.2.2").exists());
}

/// The reference knows nothing of the index.
#[test]
fn nothing_but_the_references_files_stays_when_the_last_lease_is_gone() {
    let pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    let index = Path::new(LEASES).join(".cni-plugins-rs");
    for id in ["a", "b"] {
        pool.add(id);
    }
    assert!(index.exists());
    pool.del("a");
    fs::remove_file(Path::new(LEASES).join("10.1.2.3")).expect("remove the lease as the reference does");
    pool.del("b");
    assert!(!index.exists());
    assert_eq!(files(Path::new(LEASES)).into_keys().collect::<Vec<_>>(), ["last_reserved_ip.0", "lock"]);
}

#[test]
fn networks_of_one_data_dir_do_not_meet() {
    let mut pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    assert_eq!(pool.add("a"), "10.1.2.2");
    pool.config["name"] = json!("net2");
    assert_eq!(pool.add("a"), "10.1.2.2");
    pool.del("a");
    pool.config["name"] = json!("net1");
    pool.call(Verb::Check, "a").run().expect_success();
}

#[test]
fn a_folder_that_cannot_be_made_or_written_is_named() {
    let mut pool = Pool::of_subnets(&[&["10.1.2.0/24"]]);
    fs::write("/run/file", "").expect("write a file");
    for (data_dir, says) in
        [("/run/file", "ot a directory"), ("/proc/nowhere", "o such file"), ("/sys", "not permitted")]
    {
        pool.config["ipam"]["dataDir"] = json!(data_dir);
        let error = pool.call(Verb::Add, "a").run().expect_error(5, data_dir);
        assert!(error.details.contains(says), "{error:?}");
    }
    pool.config["ipam"]["dataDir"] = json!("/run/cni");
    fs::create_dir_all("/run/cni/net1/lock").expect("create a folder in the place of the lock");
    let error = pool.call(Verb::Add, "a").run().expect_error(5, "/run/cni/net1/lock");
    assert!(error.details.contains("s a directory"), "{error:?}");
}
