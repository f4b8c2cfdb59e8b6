//! GC: the delegate's, and the state files.

use cni_conformance::Attachment;
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
    std::fs::write(file("torn"), "").expect("a torn file");
    host.list["name"] = json!("net1");
    host.runtime().gc(&[] as &[&Attachment]).expect_success();
    assert_eq!(files(), ["torn"], "it may be another network's");
}
