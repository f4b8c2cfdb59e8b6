//! The command line.

use std::fs;

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Sandbox, State};
use serde_json::json;

use crate::admin::repair::{Backend, RepairedContainer, assert_said, repair, repair_with, state};

#[test]
fn a_dry_run_tells_what_is_missing_and_writes_nothing() {
    for_each(Backend::ALL.map(|backend| (format!("{backend:?}"), backend)), |backend| {
        let sandbox = backend.sandbox();
        let guests = RepairedContainer::three(&sandbox, &backend.list());
        assert_said(&repair(&sandbox, &["--dry-run"]), &["nothing missing"; 3]);
        sandbox.sh("nft flush ruleset");
        sandbox.sh("iptables -t nat -F");
        let flushed = state(&sandbox, &guests);
        let dry = repair(&sandbox, &["--dry-run"]);
        assert_said(&dry, &["missing"; 3]);
        for plugin in ["bridge: ", "portmap: "] {
            let reported = dry.stdout().lines().filter(|line| line.contains(plugin));
            assert_eq!(reported.count(), 3, "{plugin}: {dry}");
        }
        assert_same(&flushed, &state(&sandbox, &guests));
        assert!(guests.iter().all(|attached| !attached.is_whole()));
    });
}

#[test]
fn a_network_can_be_chosen() {
    let sandbox = Backend::Nft.sandbox();
    let one = RepairedContainer::add(&sandbox, &Backend::Nft.list(), "first", 8080);
    let mut list = Backend::Nft.list();
    list["name"] = json!("other");
    list["plugins"][1]["bridge"] = json!("other");
    list["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "10.99.0.0/24"}]]);
    list["plugins"][1]["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}]);
    let other = RepairedContainer::add(&sandbox, &list, "second", 8081);
    let before = State::of_host(&sandbox);
    sandbox.sh("nft flush ruleset");
    let repaired = repair(&sandbox, &["--network", "other"]);
    assert_said(&repaired, &["repaired"]);
    assert!(repaired.stdout().starts_with("other cnitool-"), "{repaired}");
    assert_eq!((one.is_whole(), other.is_whole()), (false, true));
    assert_said(&repair(&sandbox, &["--network=nomad"]), &["repaired"]);
    one.check();
    let sorted = |state: State| {
        let mut lines = state.lines();
        lines.sort();
        lines
    };
    assert_eq!(sorted(before), sorted(State::of_host(&sandbox)));
    let none = repair(&sandbox, &["--network", "nope"]);
    none.expect_success();
    assert_eq!(none.stdout(), "no attachment to network nope in /var/lib/cni/results\n");
}

#[test]
fn a_runtime_may_keep_its_cache_elsewhere() {
    let sandbox = Backend::Nft.sandbox();
    let guests = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    fs::create_dir("/run/runtime").expect("create a folder");
    sandbox.sh("mv /var/lib/cni/results /run/runtime/results");
    sandbox.sh("nft flush ruleset");
    let none = repair(&sandbox, &[]);
    none.expect_success();
    assert_eq!(none.stdout(), "no attachment in /var/lib/cni/results\n");
    assert_said(&repair(&sandbox, &["--cache-dir", "/run/runtime"]), &["repaired"; 3]);
    sandbox.sh("mv /run/runtime/results /var/lib/cni/results");
    guests.iter().for_each(RepairedContainer::check);
}

#[test]
fn a_cache_that_was_named_must_be_there() {
    let sandbox = Sandbox::new();
    let refused = repair(&sandbox, &["--cache-dir", "/nowhere"]);
    assert_eq!((refused.code(), refused.stdout()), (Some(1), ""), "{refused}");
    assert_eq!(refused.stderr(), "cni-plugins repair: /nowhere/results does not exist\n");
}

#[test]
fn who_does_not_listen_does_not_end_the_work() {
    let sandbox = Backend::Nft.sandbox();
    let guests = RepairedContainer::three(&sandbox, &Backend::Nft.list());
    sandbox.sh("nft flush ruleset");
    let deaf = repair_with(&sandbox, &[]).launched_by(&["sh", "-c", "exec \"$0\" \"$@\" >/dev/full"]).run();
    assert_eq!((deaf.code(), deaf.stdout()), (Some(1), ""), "{deaf}");
    assert!(deaf.stderr().contains("failed to write to standard output: No space left"), "{deaf}");
    guests.iter().for_each(RepairedContainer::check);
}

#[test]
fn wrong_arguments_are_named_and_the_usage_is_printed() {
    let sandbox = Sandbox::new();
    for (arguments, problem) in [
        (&["nomad"][..], "unexpected argument 'nomad' found"),
        (&["--verbose"], "unexpected argument '--verbose' found"),
        (&["--network"], "a value is required for '--network <NAME>' but none was supplied"),
        (&["--cache-dir="], "a value is required for '--cache-dir <DIR>' but none was supplied"),
    ] {
        let refused = repair(&sandbox, arguments);
        assert_eq!((refused.code(), refused.stdout()), (Some(2), ""), "{refused}");
        assert!(refused.stderr().starts_with(&format!("error: {problem}\n")), "{refused}");
        assert!(refused.stderr().contains("try '--help'"), "{refused}");
    }
    let help = repair(&sandbox, &["--help"]);
    help.expect_success();
    assert!(help.stdout().contains("Usage: cni-plugins repair [OPTIONS]"), "{help}");
}

#[test]
fn the_tool_lists_the_verb_and_a_plugin_knows_none() {
    let sandbox = Sandbox::new();
    let help = repair_with(&sandbox, &[]).arguments(&["help"]).run();
    help.expect_success();
    assert!(help.stdout().lines().any(|line| line.starts_with("  repair ")), "{help}");
    let plugin = cni_conformance::Invocation::new(&sandbox, "bridge", cni_conformance::Verb::Add)
        .without_env("CNI_COMMAND")
        .arguments(&["repair"])
        .run();
    plugin.expect_success();
    assert!(plugin.stderr().starts_with("CNI bridge plugin v"), "{plugin}");
}
