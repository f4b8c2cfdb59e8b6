//! host-local is killed at every system call of an ADD and of a DEL, and its leases stay whole.
//!
//! `strace` kills the plugin with the n-th call of each kind, until it gets through. After each death every lease is
//! complete, the next container gets an address of its own, and DEL frees what the dead ADD may have taken.

use std::fs;
use std::path::Path;

use cni_conformance::{Invocation, Sandbox, Verb};
use serde_json::{Value, json};

const DIRECTORY: &str = "/run/cni/net1";

/// The calls that touch files, or stand between those that do. `?` passes over what a machine does not have.
const CALLS: &str = "?open openat read write close ?flock ?fcntl ?mkdir mkdirat ?link linkat ?unlink unlinkat ?rename ?renameat2 ftruncate \
                     utimensat getdents64 ?stat ?lstat ?fstat statx";

/// More calls of one kind than this are another kind of failure.
const MOST: usize = 700;

fn config() -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "net1", "type": "host-local",
        "ipam": {"type": "host-local", "dataDir": "/run/cni",
                 "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/120"}]]},
    })
}

fn call(sandbox: &Sandbox, verb: Verb, container: &str) -> Invocation {
    Invocation::new(sandbox, "host-local", verb).container_id(container).netns("/nowhere").config(&config())
}

/// Kills the plugin at its n-th call of a kind; tells whether it died.
fn killed_at(sandbox: &Sandbox, verb: Verb, container: &str, kind: &str, n: usize) -> bool {
    let inject = format!("inject={kind}:signal=KILL:when={n}");
    let strace = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=all", "-e", &inject];
    let outcome = call(sandbox, verb, container).launched_by(&strace).run();
    !outcome.succeeded()
}

/// The names and the holders of all leases; a torn one is told as held by nobody.
fn leases() -> Vec<(String, String)> {
    let files = fs::read_dir(DIRECTORY).into_iter().flatten().map(|entry| entry.expect("entry").path());
    let named = files.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)));
    let addresses = named.filter(|(name, _)| name.parse::<std::net::IpAddr>().is_ok());
    let mut leases: Vec<_> =
        addresses.map(|(name, path)| (name, fs::read_to_string(Path::new(&path)).expect("a lease"))).collect();
    leases.sort();
    leases
}

fn assert_whole(containers: &[&str]) {
    for (address, holder) in leases() {
        let known = containers.iter().any(|container| holder == format!("{container}\r\neth0"));
        assert!(known, "{address} is held by {holder:?}");
    }
}

fn addresses(result: &Value) -> Vec<String> {
    let ips = result["ips"].as_array().expect("addresses");
    ips.iter().map(|ip| ip["address"].as_str().expect("an address").to_owned()).collect()
}

/// A container is added, or deleted, and the plugin killed at each call; other containers keep what they have.
fn kill_at_any_call(verb: Verb) {
    let sandbox = Sandbox::new();
    let kept = addresses(&call(&sandbox, Verb::Add, "kept").run().result());
    let mut deaths = 0;
    for kind in CALLS.split_whitespace() {
        for n in 1..MOST {
            if verb == Verb::Del {
                call(&sandbox, Verb::Add, "dying").run().expect_success();
            }
            let died = killed_at(&sandbox, verb, "dying", kind, n);
            deaths += usize::from(died);
            assert_whole(&["kept", "dying"]);
            let next = addresses(&call(&sandbox, Verb::Add, "next").run().result());
            assert!(next.iter().all(|address| !kept.contains(address)), "{kind} {n}: {next:?}");
            for container in ["dying", "next"] {
                call(&sandbox, Verb::Del, container).run().expect_success();
            }
            assert_eq!(leases().len(), 2, "{kind} {n}: {:?}", leases());
            if !died {
                break;
            }
        }
    }
    assert!(deaths > 10, "{deaths} deaths");
}

#[test]
fn an_add_that_is_killed_at_any_call_leaves_whole_leases_and_a_store_that_works() {
    kill_at_any_call(Verb::Add);
}

#[test]
fn a_del_that_is_killed_at_any_call_is_ended_by_the_next() {
    kill_at_any_call(Verb::Del);
}
