//! GC: the delegate's, and the state files. `cni-plugins gc` finds the delegate's leases.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Attachment, Invocation, Verb, result_cache};
use serde_json::json;

use crate::flannel::setup::{LEASE, file, files, host, remove_lease, second_interface, write_lease};

#[test]
fn gc_removes_what_belongs_to_no_valid_attachment() {
    for has_lease in [true, false] {
        let host = host();
        let (kept, valid) = host.add("kept");
        let before = host.state_with(&[]);
        let (lost, _) = host.add("lost");
        let mut second = second_interface("kept", &kept);
        host.runtime().add(&mut second).expect_success();
        assert_eq!(files(), ["kept", "kept@eth1", "lost"]);
        lost.remove();
        if !has_lease {
            remove_lease();
        }
        host.runtime().gc(&[&valid]).expect_success();
        write_lease(LEASE);
        host.is_as_before(&before, &[]);
        assert_eq!(files(), ["kept"]);
        host.check(&valid);
    }
}

#[test]
fn gc_leaves_states_of_other_networks() {
    let mut host = host();
    host.add("c1");
    host.list["name"] = json!("net2");
    host.runtime().gc(&[] as &[&Attachment]).expect_success();
    assert_eq!(files(), ["c1"]);
    fs::write(file("torn"), "").expect("a torn file");
    host.list["name"] = json!("net1");
    host.runtime().gc(&[] as &[&Attachment]).expect_success();
    assert_eq!(files(), ["torn"], "it may be another network's");
}

/// A container that the cache does not know, beside one that it knows. What the delegate was called with says where the leases are.
#[test]
fn the_administrators_tool_finds_the_leases_of_the_delegate() {
    let host = host();
    let (_kept, valid) = host.add("kept");
    result_cache::store(&host.list, &valid);
    let (lost, _) = host.add("lost");
    let lease = Path::new("/run/cni/net1/10.42.1.3");
    assert!(fs::read_to_string(lease).expect("a lease").starts_with("lost"));
    let links = || host.sandbox.sh("ip -brief link show type veth").lines().count();
    let (before, started) = (links(), Instant::now());
    lost.remove();
    while links() == before {
        assert!(started.elapsed() < Duration::from_secs(30), "the interface stays");
        thread::sleep(Duration::from_millis(10));
    }
    host.sandbox.exec(&["touch", "--date", "2 hours ago", "/run/cni/net1/10.42.1.3"]).expect_success();
    let said = Invocation::new(&host.sandbox, "cni-plugins", Verb::Add).arguments(&["gc", "--remove"]).run();
    said.expect_success();
    assert!(said.stdout().contains("lost") && said.stdout().contains("10.42.1.3"), "{said}");
    assert!(!lease.exists(), "{said}");
    assert!(Path::new("/run/cni/net1/10.42.1.2").exists(), "{said}");
    assert_eq!(files(), ["kept"]);
    host.check(&valid);
}
