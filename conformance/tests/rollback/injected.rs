//! A failure of every single system call of every plugin.
//!
//! `strace` makes the n-th call of one kind fail, and only that, so the calls that take things
//! back succeed. It follows the plugin alone: the delegated plugin has its own turn. A plugin may
//! get over a failure; then all must be there as if nothing had been.

use std::cell::Cell;
use std::fs;

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Invocation, Nomad, Outcome};

use crate::stage::{Stage, networks};

/// The calls that can fail, each with an error that it really may have.
const FAULTS: [(&str, &str); 30] = [
    ("bind", "ENOMEM"),
    ("clone", "EAGAIN"),
    ("clone3", "EAGAIN"),
    ("fchmod", "EPERM"),
    ("fdatasync", "EIO"),
    ("flock", "ENOLCK"),
    ("fsync", "EIO"),
    ("ftruncate", "EIO"),
    ("getdents64", "EIO"),
    ("ioctl", "EPERM"),
    ("link", "ENOSPC"),
    ("linkat", "ENOSPC"),
    ("mkdir", "ENOSPC"),
    ("mkdirat", "ENOSPC"),
    ("open", "EMFILE"),
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

/// More calls than this are another kind of failure.
const MOST: usize = 500;

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
fn macvlan_takes_back_whatever_call_fails() {
    every_call_fails_once("macvlan", &Nomad::default());
}

#[test]
fn tap_takes_back_whatever_call_fails() {
    every_call_fails_once("tap", &Nomad::default());
}

#[test]
fn ptp_takes_back_whatever_call_fails() {
    every_call_fails_once("ptp", &Nomad::default().dual_stack());
}

#[test]
fn host_device_takes_back_whatever_call_fails() {
    every_call_fails_once("host-device", &Nomad::default());
}

#[test]
fn firewall_takes_back_whatever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("firewall", &nomad));
}

#[test]
fn tuning_takes_back_whatever_call_fails() {
    every_call_fails_once("tuning", &Nomad::default());
}

#[test]
fn sbr_takes_back_whatever_call_fails() {
    every_call_fails_once("sbr", &Nomad::default().dual_stack());
}

#[test]
fn bandwidth_takes_back_whatever_call_fails() {
    every_call_fails_once("bandwidth", &Nomad::default());
}

#[test]
fn consul_cni_takes_back_whatever_call_fails() {
    every_call_fails_once("consul-cni", &Nomad::default());
}

#[test]
fn portmap_takes_back_whatever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("portmap", &nomad));
}

fn every_call_fails_once(plugin: &'static str, nomad: &Nomad) {
    let calls = observe_calls(&Stage::new(plugin, nomad, Flavour::Nft));
    let tried = Cell::new(0);
    for_each(calls.into_iter().map(|call| (call.label(), call)), |call| {
        let stage = Stage::new(plugin, nomad, Flavour::Nft);
        tried.set(tried.get() + u32::from(fail_one_call(&stage, &call)));
    });
    assert!(tried.get() > 0, "{plugin} made none of the calls");
}

/// One call of an undisturbed ADD.
struct Call {
    name: &'static str,
    error: &'static str,
    /// The how many-th call of this name it is.
    number: u32,
    /// As `strace` writes it.
    text: String,
}

impl Call {
    fn label(&self) -> String {
        format!("{} {}: {:.100}", self.name, self.number, self.text)
    }
}

/// Returns the calls that an undisturbed ADD makes; of the reads of one file, and of the files
/// that are not there, only the first and the last.
fn observe_calls(stage: &Stage) -> Vec<Call> {
    let names = FAULTS.map(|(name, _)| name).join(",");
    let (outcome, trace) = run_under_strace(&stage.add(), &format!("trace={names}"));
    outcome.expect_success();
    let mut calls: Vec<Call> = Vec::new();
    for (name, error) in FAULTS {
        let made = trace.lines().filter(|line| line.split_once('(').is_some_and(|(made, _)| made == name));
        // The kernel itself restarts some writes below /proc/sys while somebody else holds its lock.
        for (number, line) in (1..).zip(made.filter(|line| !line.contains("= ? ERESTART"))) {
            let alike = |call: &Call| call.name == name && is_more_of_the_same(&call.text, line);
            if calls.iter().rev().take(2).filter(|call| alike(call)).count() == 2 {
                calls.pop();
            }
            calls.push(Call { name, error, number, text: line.to_owned() });
        }
    }
    assert!(calls.len() < MOST, "too many calls: {}", calls.len());
    calls
}

fn is_more_of_the_same(before: &str, after: &str) -> bool {
    let reads = before.starts_with("read(") && file_of(before) == file_of(after);
    let looks_for = |line: &str| line.contains("= -1 ENOENT");
    reads || (looks_for(before) && looks_for(after))
}

/// Returns what stands in the first angle brackets, the file of a descriptor.
fn file_of(line: &str) -> Option<&str> {
    line.split_once('<')?.1.split_once('>').map(|(file, _)| file)
}

/// Tells whether the call was made and failed; not every run makes them in the same number.
fn fail_one_call(stage: &Stage, call: &Call) -> bool {
    let Call { name, error, number, text: _ } = call;
    let before = stage.state();
    let (outcome, trace) = run_under_strace(&stage.add(), &format!("inject={name}:error={error}:when={number}"));
    let injected = trace.lines().find(|line| line.ends_with("(INJECTED)"));
    if outcome.succeeded() {
        stage.check(&outcome.result()).run().expect_success();
        return injected.is_some();
    }
    let injected = injected.unwrap_or_else(|| panic!("failed by itself: {outcome}"));
    eprintln!("{injected}");
    if injected.starts_with("write(1<") {
        // The error went where the result could not.
        assert_eq!(outcome.code(), Some(1), "{outcome}");
    } else {
        outcome.error();
    }
    stage.left_nothing_since(&before);
    stage.succeeds_now();
    true
}

fn run_under_strace(invocation: &Invocation, expression: &str) -> (Outcome, String) {
    let words = ["/usr/bin/strace", "-qq", "-y", "-o", TRACE, "-e", "signal=none", "-e", expression, "--"];
    let outcome = invocation.clone().launched_by(&words).run();
    let trace = fs::read_to_string(TRACE).unwrap_or_else(|error| panic!("read {TRACE} ({error}): {outcome}"));
    (outcome, trace)
}
