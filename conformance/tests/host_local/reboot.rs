//! Leases from before a reboot: their containers have ended, if they were this machine's.

use std::fs;

use cni_conformance::Verb;

use crate::host_local::setup::{LEASES, Pool};

/// The sandbox has its own mounts, so the machine's id stays what it is.
fn reboot(pool: &Pool) {
    fs::write("/run/conformance/boot_id", "5dd2c0a0-0000-4000-8000-000000000001\n").expect("write a boot ID");
    pool.sandbox.sh("mount -n --bind /run/conformance/boot_id /proc/sys/kernel/random/boot_id");
}

/// A network with a single address, whose leases are on a file system of this kind.
fn pool_on(kind: &str) -> Pool {
    let pool = Pool::of_subnets(&[&["10.1.2.0/30"]]);
    fs::create_dir_all(LEASES).expect("create the folder of leases");
    pool.sandbox.sh(&format!("mount -t {kind} {kind} {LEASES}"));
    pool
}

/// Go keeps them until somebody removes them.
#[test]
fn an_address_is_given_again_when_its_container_cannot_have_outlived_the_reboot() {
    let pool = pool_on("tmpfs");
    assert_eq!(pool.add("a"), "10.1.2.2");
    pool.refused(&pool.call(Verb::Add, "b"), 102, &["no IP addresses available"]);
    reboot(&pool);
    assert_eq!(pool.add("b"), "10.1.2.2");
}

/// A machine that was cloned from the same image has the same machine-id, and another boot: its containers live. ramfs
/// is like a network file system, which no plugin can distinguish from it.
#[test]
fn on_a_disk_that_another_machine_may_share_a_lease_is_nobody_elses() {
    let pool = pool_on("ramfs");
    assert_eq!(pool.add("a"), "10.1.2.2");
    reboot(&pool);
    pool.refused(&pool.call(Verb::Add, "b"), 102, &["no IP addresses available"]);
}
