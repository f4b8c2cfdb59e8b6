//! Several interfaces of one container, which with the reference overwrite each other's state.

use cni_conformance::{Attachment, Network};
use serde_json::json;

use crate::flannel::setup::{files, host, second_interface};

#[test]
fn each_interface_is_removed_alone_in_either_order() {
    for first in ["eth0", "eth1"] {
        let host = host();
        host.add("neighbour");
        let before = host.state_with(&[]);
        let (container, eth0) = host.add("c1");
        let mut eth1 = second_interface("c1", &container);
        host.runtime().add(&mut eth1).expect_success();
        assert_eq!(files(), ["c1", "c1@eth1", "neighbour"]);
        let (gone, kept) = if first == "eth0" { (&eth0, &eth1) } else { (&eth1, &eth0) };
        for _ in 0..2 {
            host.del(gone);
            host.check(kept);
        }
        assert_eq!(files().len(), 2);
        host.del(kept);
        host.is_as_before(&before, &[]);
        assert!(Network::observe(&container).links.iter().all(|link| link.name == "lo"));
    }
}

#[test]
fn two_networks_with_one_folder_keep_their_states_apart() {
    let mut host = host();
    let (container, eth0) = host.add("c1");
    let first = host.list.clone();
    host.list["name"] = json!("net2");
    host.list["plugins"][0]["delegate"]["bridge"] = json!("cni1");
    host.list["plugins"][0]["delegate"]["isDefaultGateway"] = json!(false);
    host.list["plugins"][0]["ipam"] = json!({"dataDir": "/run/cni", "type": "host-local"});
    let mut eth1 = second_interface("c1", &container);
    host.runtime().add(&mut eth1).expect_success();
    assert_eq!(files(), ["c1", "c1@eth1"]);
    let second = std::mem::replace(&mut host.list, first);
    host.del(&eth0);
    assert_eq!(files(), ["c1@eth1"]);
    host.list = second;
    host.check(&eth1);
    host.del(&eth1);
    assert_eq!(files(), [""; 0]);
}

/// A further interface whose ADD has failed has nothing, and its DEL leaves the first one's state.
#[test]
fn del_of_an_interface_that_was_never_added_leaves_the_others_state() {
    let host = host();
    let (container, eth0) = host.add("c1");
    host.del(&Attachment::new("c1", &container).ifname("eth1"));
    assert_eq!(files(), ["c1"]);
    host.check(&eth0);
}
