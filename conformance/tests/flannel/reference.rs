//! What the original has left is ours to remove, and the other way round.
//!
//! The original is no part of these tests. What it does is known: ADD writes the composed configuration to a file with the
//! container's id as its name, and calls the delegate with it; DEL calls the delegate with what is in the file, and removes it.

use std::fs;
use std::path::Path;

use cni_conformance::{Attachment, Container, Invocation, ListHost, Network, Verb, binaries};
use serde_json::Value;

use crate::flannel::setup::{DATA, composed, file, files, host};

/// Calls a delegate of a folder as the original does.
fn call(host: &ListHost, folder: &Path, verb: Verb, attachment: &Attachment, config: &str) -> cni_conformance::Outcome {
    Invocation::new(&host.sandbox, "bridge", verb)
        .binaries(folder)
        .container_id(&attachment.container_id)
        .netns(&attachment.netns)
        .ifname(&attachment.ifname)
        .stdin(config.as_bytes())
        .run()
}

/// What ADD of the original leaves.
fn original_add(host: &ListHost, folder: &Path, container: &Container) -> (Attachment, Value) {
    let attachment = Attachment::new("c1", container);
    let config = composed("1.0.0");
    fs::create_dir_all(DATA).expect("a folder");
    fs::write(file("c1"), &config).expect("a state file");
    let result = call(host, folder, Verb::Add, &attachment, &config).result();
    (attachment, result)
}

/// The delegates that either side may have: ours, and Debian's where it is.
fn folders() -> Vec<std::path::PathBuf> {
    [Some(binaries::under_test()), binaries::reference()].into_iter().flatten().collect()
}

#[test]
fn what_the_original_has_added_is_checked_and_deleted() {
    for folder in folders() {
        let mut host = host();
        host.list["cniVersion"] = "1.0.0".into();
        host.add("neighbour");
        let container = host.sandbox.container("c1");
        let before = host.state_with(&[&container]);
        let (mut attachment, result) = original_add(&host, &folder, &container);
        attachment.result = Some(result);
        host.check(&attachment);
        host.del(&attachment);
        assert_eq!(files(), ["neighbour"], "{}", folder.display());
        host.is_as_before(&before, &[&container]);
    }
}

#[test]
fn the_original_deletes_what_was_added_here() {
    for folder in folders() {
        let mut host = host();
        host.list["cniVersion"] = "1.0.0".into();
        host.add("neighbour");
        let (container, attachment) = host.add("c1");
        let config = fs::read_to_string(file("c1")).expect("the file that it looks for");
        call(&host, &folder, Verb::Del, &attachment, &config).expect_success();
        fs::remove_file(file("c1")).expect("it removes the file");
        assert!(Network::observe(&container).link("eth0").is_none());
        assert!(!Path::new("/run/cni/net1/10.42.1.3").exists(), "the address is free");
    }
}

/// Two interfaces overwrite each other's file there, so the file is that of the second.
#[test]
fn two_interfaces_of_the_original_are_both_deleted() {
    for first in ["eth0", "eth1"] {
        let mut host = host();
        host.list["cniVersion"] = "1.0.0".into();
        host.add("neighbour");
        let container = host.sandbox.container("c1");
        let before = host.state_with(&[&container]);
        let folder = binaries::under_test();
        original_add(&host, &folder, &container);
        let second = Attachment::new("c1", &container).ifname("eth1");
        call(&host, &folder, Verb::Add, &second, &composed("1.0.0")).expect_success();
        let other = if first == "eth0" { "eth1" } else { "eth0" };
        for ifname in [first, other] {
            host.del(&Attachment::new("c1", &container).ifname(ifname));
        }
        host.is_as_before(&before, &[&container]);
    }
}
