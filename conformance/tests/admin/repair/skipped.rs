//! What cannot, or must not, be repaired is told and does not keep the rest.

use std::fs;
use std::path::{Path, PathBuf};

use cni_conformance::state::assert_same;
use cni_conformance::{Sandbox, State};
use serde_json::{Value, json};

use crate::admin::repair::{Backend, RepairedContainer, assert_said, repair, state, words};

const RESULTS: &str = "/var/lib/cni/results";

/// The file of the cache that names a container's namespace.
fn cached(attached: &RepairedContainer<'_>) -> PathBuf {
    let files = fs::read_dir(RESULTS).expect("list the cache").map(|entry| entry.expect("read the cache").path());
    let netns = format!("\"netns\":\"{}\"", attached.container.path());
    let mut found = files.filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(&netns)));
    found.next().expect("a file of the cache")
}

/// Changes a file of the cache in place, so that it stays as old as it is.
fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("when it was written");
    let mut cache: Value = serde_json::from_slice(&fs::read(path).expect("read the cache")).expect("JSON");
    change(&mut cache);
    fs::write(path, cache.to_string()).expect("write the cache");
    fs::File::options().append(true).open(path).and_then(|file| file.set_modified(written)).expect("set the time");
}

fn rules(sandbox: &Sandbox) -> String {
    ["iptables -S", "iptables -t nat -S", "ip6tables -S", "ip6tables -t nat -S"].map(|line| sandbox.sh(line)).concat()
}

#[test]
fn a_container_that_is_gone_is_skipped() {
    let sandbox = Backend::Nft.sandbox();
    let [first, second, third] = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    second.container.remove();
    third.container.unmount();
    sandbox.sh("nft flush ruleset");
    let repaired = repair(&sandbox, &[]);
    assert_said(&repaired, &["repaired", "skipped", "skipped"]);
    for line in repaired.stdout().lines().skip(1) {
        assert!(line.contains(": skipped: the container is gone: /run/netns/"), "{repaired}");
    }
    first.check();
    let rules = rules(&sandbox);
    assert!(rules.contains("172.26.64.2/32") && !rules.contains("172.26.64.3") && !rules.contains("172.26.64.4"));
}

/// The address may be another container's by now.
#[test]
fn a_namespace_without_the_containers_interface_is_skipped() {
    let sandbox = Backend::Nft.sandbox();
    let [first, second, third] = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    first.container.sh("ip link delete eth0");
    // The number of a process that ended is another's by now.
    let path = third.container.path();
    change(&cached(&second), |cache| cache["netns"] = json!(path));
    sandbox.sh("nft flush ruleset");
    let repaired = repair(&sandbox, &[]);
    assert_said(&repaired, &["skipped", "skipped", "repaired"]);
    assert!(repaired.stdout().contains("does not have the container's eth0 any more"), "{repaired}");
    third.check();
    let rules = rules(&sandbox);
    assert!(rules.contains("172.26.64.4/32") && !rules.contains("172.26.64.2/") && !rules.contains("172.26.64.3/"));
}

#[test]
fn the_hosts_own_namespace_is_no_containers() {
    let sandbox = Backend::Nft.sandbox();
    let attached = RepairedContainer::add(&sandbox, &Backend::Nft.list(), "first", 8080);
    change(&cached(&attached), |cache| cache["netns"] = json!("/proc/thread-self/ns/net"));
    sandbox.sh("nft flush ruleset");
    let repaired = repair(&sandbox, &[]);
    assert_said(&repaired, &["skipped"]);
    assert!(repaired.stdout().contains("/proc/thread-self/ns/net is the host's own namespace"), "{repaired}");
}

/// Releases of libcni before 1.1 do not write the namespace down.
#[test]
fn the_namespace_of_the_result_will_do() {
    let sandbox = Backend::Nft.sandbox();
    let guests = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    for attached in &guests {
        change(&cached(attached), |cache| {
            cache.as_object_mut().expect("an object").remove("netns");
        });
    }
    let before = state(&sandbox, &guests);
    sandbox.sh("nft flush ruleset");
    assert_said(&repair(&sandbox, &[]), &["repaired"; 3]);
    assert_same(&before, &state(&sandbox, &guests));
}

#[test]
fn torn_and_foreign_files_are_passed_over() {
    let sandbox = Backend::Nft.sandbox();
    let guests = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    let torn = cached(&guests[0]);
    let text = fs::read(&torn).expect("read the cache");
    fs::write(&torn, &text[..text.len() / 2]).expect("tear a file");
    fs::write(format!("{RESULTS}/old"), json!({"cniVersion": "0.3.1", "ips": []}).to_string()).expect("write");
    fs::write(format!("{RESULTS}/empty"), "").expect("write");
    fs::create_dir(format!("{RESULTS}/folder")).expect("create");
    sandbox.sh("nft flush ruleset");
    let repaired = repair(&sandbox, &[]);
    let lines: Vec<&str> = repaired.stdout().lines().collect();
    assert_eq!((repaired.code(), lines.len()), (Some(1), 6), "what was not read may lack rules: {repaired}");
    for (name, why) in [
        (torn.to_str().expect("a text"), "incomplete, or not JSON"),
        ("/var/lib/cni/results/old", "not a file of kind cniCacheV1"),
        ("/var/lib/cni/results/empty", "incomplete, or not JSON"),
        ("/var/lib/cni/results/folder", "failed to read /var/lib/cni/results/folder: it is not a file"),
    ] {
        let start = format!("{name}: ignored: {why}");
        assert!(lines.iter().any(|line| line.starts_with(&start)), "no {start:?}: {repaired}");
    }
    assert!(!guests[0].is_whole());
    guests[1..].iter().for_each(RepairedContainer::check);
}

/// A plugin of the list does not take the version that the result has; the others' rules are done.
#[test]
fn one_that_fails_does_not_keep_the_others() {
    let sandbox = Backend::Nft.sandbox();
    let guests = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    change(&cached(&guests[0]), |cache| cache["result"]["cniVersion"] = json!("9.9.9"));
    sandbox.sh("nft flush ruleset");
    let repaired = repair(&sandbox, &[]);
    assert_eq!((repaired.code(), words(&repaired)), (Some(1), vec!["failed", "repaired", "repaired"]), "{repaired}");
    assert!(repaired.stdout().contains("9.9.9"), "{repaired}");
    guests[1..].iter().for_each(RepairedContainer::check);
}

/// Bridge does not find its bridge any more; the rules of the others come back all the same.
#[test]
fn a_plugin_that_fails_does_not_keep_the_other_plugins() {
    let sandbox = Backend::Nft.sandbox();
    let mut list = Backend::Nft.list();
    list["plugins"][1]["bridge"] = json!("gone");
    let attached = RepairedContainer::add(&sandbox, &list, "first", 8080);
    sandbox.sh("ip link set gone name other");
    sandbox.sh("nft flush ruleset");
    let repaired = repair(&sandbox, &[]);
    assert_eq!((repaired.code(), words(&repaired)), (Some(1), vec!["failed"]), "{repaired}");
    assert!(repaired.stdout().contains("Interface name gone not found in the host namespace"), "{repaired}");
    assert!(repaired.stdout().contains("; repaired: firewall: ") && repaired.stdout().contains("; portmap: "));
    assert!(rules(&sandbox).contains("--to-destination 172.26.64.2:80"));
    assert!(!attached.is_whole());
}

#[test]
fn a_deleted_container_is_not_listed() {
    let sandbox = Backend::Nft.sandbox();
    let guests = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    guests[1].tool.del(&guests[1].container).expect_success();
    let before = State::of_host(&sandbox);
    sandbox.sh("nft flush ruleset");
    assert_said(&repair(&sandbox, &[]), &["repaired"; 2]);
    assert_same(&before, &State::of_host(&sandbox));
}
