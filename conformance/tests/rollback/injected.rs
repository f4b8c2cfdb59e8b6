//! A failure of every single system call of every plugin.
//!
//! `strace` makes the n-th call of one kind fail, and only that, so the calls that take things
//! back succeed. It follows the plugin alone: the delegated plugin has its own turn. A plugin may
//! get over a failure; then all must be there as if nothing had been.

use std::collections::BTreeMap;
use std::fs;

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Invocation, Nomad, Outcome};

use crate::stage::{Stage, networks};

/// The calls that can fail, each with an error that it really may have.
const FAULTS: [(&str, &str); 28] = [
    ("bind", "ENOMEM"),
    ("clone", "EAGAIN"),
    ("clone3", "EAGAIN"),
    ("fchmod", "EPERM"),
    ("fdatasync", "EIO"),
    ("flock", "ENOLCK"),
    ("fsync", "EIO"),
    ("ftruncate", "EIO"),
    ("getdents64", "EIO"),
    ("link", "ENOSPC"),
    ("linkat", "ENOSPC"),
    ("mkdir", "ENOSPC"),
    ("mkdirat", "ENOSPC"),
    ("openat", "EMFILE"),
    ("pipe2", "EMFILE"),
    ("read", "EIO"),
    ("recvfrom", "ENOBUFS"),
    ("recvmsg", "ENOBUFS"),
    ("rename", "ENOSPC"),
    ("renameat2", "ENOSPC"),
    ("sendmsg", "ENOBUFS"),
    ("sendto", "ENOBUFS"),
    ("setns", "EPERM"),
    ("socket", "EMFILE"),
    ("unlink", "EIO"),
    ("unlinkat", "EIO"),
    ("vfork", "EAGAIN"),
    ("write", "ENOSPC"),
];

/// More calls of one kind than this are another kind of failure.
const MOST: u32 = 400;

const TRACE: &str = "/run/conformance/injected";

#[test]
fn loopback_takes_back_whatever_call_fails() {
    every_call_fails_once("loopback", &Nomad::default());
}

#[test]
fn host_local_takes_back_whatever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("host-local", &nomad));
}

#[test]
fn bridge_takes_back_whatever_call_fails_on_ipv4() {
    every_call_fails_once("bridge", &Nomad::default());
}

#[test]
fn bridge_takes_back_whatever_call_fails_on_both_families() {
    every_call_fails_once("bridge", &Nomad::default().dual_stack());
}

#[test]
fn firewall_takes_back_whatever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("firewall", &nomad));
}

#[test]
fn portmap_takes_back_whatever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("portmap", &nomad));
}

fn every_call_fails_once(plugin: &'static str, nomad: &Nomad) {
    let counts = count_calls(&Stage::new(plugin, nomad, Flavour::Nft));
    let faults = FAULTS.iter().filter_map(|(call, error)| counts.get(*call).map(|count| (*call, *error, *count)));
    let each = faults.flat_map(|(call, error, count)| (1..=count).map(move |number| (call, error, number)));
    let named = each
        .map(|(call, error, number)| (format!("{call} {number} of {} {error}", counts[call]), (call, error, number)));
    let tried = std::cell::Cell::new(0);
    for_each(named, |(call, error, number)| {
        let stage = Stage::new(plugin, nomad, Flavour::Nft);
        tried.set(tried.get() + u32::from(fail_one_call(&stage, call, error, number)));
    });
    assert!(tried.get() > 0, "{plugin} made none of the calls");
}

/// Returns how often an undisturbed ADD makes each of the calls.
fn count_calls(stage: &Stage) -> BTreeMap<String, u32> {
    let calls = FAULTS.map(|(call, _)| call).join(",");
    let (outcome, trace) = run_under_strace(&stage.add(), &format!("trace={calls}"));
    outcome.expect_success();
    let mut counts = BTreeMap::new();
    for line in trace.lines() {
        if let Some((call, _)) = line.split_once('(') {
            *counts.entry(call.to_owned()).or_insert(0) += 1;
        }
    }
    assert!(counts.values().all(|count| *count <= MOST), "too many calls: {counts:?}");
    counts
}

/// Tells whether the call was made and failed; not every run makes them in the same number.
fn fail_one_call(stage: &Stage, call: &str, error: &str, number: u32) -> bool {
    let before = stage.state();
    let (outcome, trace) = run_under_strace(&stage.add(), &format!("inject={call}:error={error}:when={number}"));
    let injected = trace.lines().find(|line| line.ends_with("(INJECTED)"));
    if outcome.succeeded() {
        stage.check(&outcome.result()).run().expect_success();
        return injected.is_some();
    }
    let injected = injected.unwrap_or_else(|| panic!("failed by itself: {outcome}"));
    eprintln!("{injected}");
    outcome.error();
    stage.left_nothing_since(&before);
    stage.succeeds_now();
    true
}

fn run_under_strace(invocation: &Invocation, expression: &str) -> (Outcome, String) {
    let words = ["/usr/bin/strace", "-qq", "-o", TRACE, "-e", "signal=none", "-e", expression, "--"];
    let outcome = invocation.clone().launched_by(&words).run();
    let trace = fs::read_to_string(TRACE).unwrap_or_else(|error| panic!("read {TRACE} ({error}): {outcome}"));
    (outcome, trace)
}
