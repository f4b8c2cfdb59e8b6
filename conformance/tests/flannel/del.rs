//! DEL, whatever was lost.

use std::fs;

use cni_conformance::cases::for_each;
use cni_conformance::wait::wait_until;
use cni_conformance::{Attachment, Loss, Runtime, keys};
use serde_json::json;

use crate::flannel::setup::{composed, file, files, foreign, given, host, remove_lease};

#[test]
fn del_removes_what_add_made_whatever_was_lost_and_comes_twice() {
    for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
        let host = host();
        let (_neighbour, kept) = host.add("neighbour");
        let before = host.state_with(&[]);
        let (container, attachment) = host.add("c1");
        let request = loss.strike(&container, attachment);
        for _ in 0..2 {
            host.del(&request);
            host.is_as_before(&before, &[]);
        }
        host.check(&kept);
    });
}

/// As after a reboot: the one file of the container is that of the new interface.
#[test]
fn a_container_that_comes_back_without_del_leaves_nothing() {
    let host = host();
    let (_neighbour, _) = host.add("neighbour");
    let before = host.state_with(&[]);
    let links = || host.sandbox.sh("ip -brief link show type veth").lines().count();
    let neighbours = links();
    let (container, _) = host.add("c1");
    host.sandbox.sh(&format!("ip netns del {}", container.name()));
    wait_until("the former interface is gone", || links() == neighbours);
    let (_container, attachment) = host.add("c1");
    assert_eq!(files(), ["c1", "neighbour"]);
    host.del(&attachment);
    host.is_as_before(&before, &[]);
}

/// The reference, or a time before the boot, has left a file and no record. A tunnel that the kernel makes in every namespace is down.
#[test]
fn a_state_without_a_record_is_replaced_unless_another_interface_may_have_it() {
    for (link, up, is_replaced) in [("tunl9", "down", true), ("eth9", "up", false)] {
        let host = host();
        let container = host.sandbox.container("c1");
        container.sh(&format!("ip link add {link} type bridge"));
        container.sh(&format!("ip link set {link} {up}"));
        fs::create_dir_all(crate::flannel::setup::DATA).expect("a folder");
        let old = composed("1.0.0").replace("10.42.1.0", "10.42.9.0");
        fs::write(file("c1"), &old).expect("write the former state");
        let mut attachment = Attachment::new("c1", &container);
        host.runtime().add(&mut attachment).expect_success();
        assert_eq!(files(), ["c1", "c1@eth0"][..if is_replaced { 1 } else { 2 }], "{link}");
        host.del(&attachment);
        let left = fs::read_to_string(file("c1")).ok();
        assert_eq!(left, (!is_replaced).then_some(old), "{link}");
    }
}

#[test]
fn del_needs_neither_lease_nor_keys() {
    let mut host = host();
    let (_neighbour, _) = host.add("neighbour");
    let before = host.state_with(&[]);
    let (_container, attachment) = host.add("c1");
    let lease = fs::read(crate::flannel::setup::SUBNET_FILE).expect("a lease");
    remove_lease();
    keys::set(&mut host.list["plugins"][0], &json!({"delegate": {"type": 1}, "ipam": {"routes": 1}}));
    host.del(&attachment);
    fs::write(crate::flannel::setup::SUBNET_FILE, lease).expect("a lease");
    host.is_as_before(&before, &[]);
}

/// The reference leaves everything when the file is lost, and the torn file for ever as well.
#[test]
fn a_lost_or_torn_state_file_leaves_nothing() {
    let text = composed("1.1.0");
    for_each([("lost", None), ("empty", Some("")), ("torn", Some(&text[..text.len() / 2]))], |torn| {
        for with_lease in [true, false] {
            let host = host();
            let (_neighbour, _) = host.add("neighbour");
            let before = host.state_with(&[]);
            let (_container, attachment) = host.add("c1");
            fs::remove_file(file("c1")).expect("the state file");
            if let Some(torn) = torn {
                fs::write(file("c1"), torn).expect("write a torn file");
            }
            let lease = fs::read(crate::flannel::setup::SUBNET_FILE).expect("a lease");
            if !with_lease {
                remove_lease();
            }
            for _ in 0..2 {
                host.del(&attachment);
            }
            fs::write(crate::flannel::setup::SUBNET_FILE, lease).expect("a lease");
            host.is_as_before(&before, &[]);
        }
    });
}

/// The reference removes the file even so, and the next DEL does nothing.
#[test]
fn a_del_that_fails_can_be_repeated() {
    let mut host = host();
    host.list["plugins"][0]["delegate"] = json!({"type": "foreign"});
    let folder = foreign(
        "[ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\": \"1.1.0\", \"dns\": {}}' && exit 0\n\
         [ -e /run/conformance/broken ] || exit 0\n\
         echo '{\"code\": 117, \"msg\": \"broken\", \"details\": \"by the test\"}'; exit 1\n",
    );
    let runtime = Runtime::new(&host.sandbox, host.list.clone()).binaries(&folder);
    let container = host.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    runtime.add(&mut attachment).expect_success();
    fs::write("/run/conformance/broken", "").expect("break the delegate");
    let error = runtime.del(&attachment).expect_error("flannel", 117, "broken");
    assert_eq!((error.details.as_str(), files()), ("by the test", vec!["c1".to_owned()]));
    fs::remove_file("/run/conformance/broken").expect("mend the delegate");
    runtime.del(&attachment).expect_success();
    assert_eq!((given("DEL"), files()), (given("ADD"), Vec::new()));
}

/// Without an ADD there is nothing to remove, and the runtime must not try for ever.
#[test]
fn del_without_add_succeeds() {
    let host = host();
    remove_lease();
    let container = host.sandbox.container("c1");
    let before = host.state_with(&[&container]);
    host.del(&Attachment::new("c1", &container));
    host.is_as_before(&before, &[&container]);
}
