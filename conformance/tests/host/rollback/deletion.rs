//! A failure of every single system call of the DEL of plugins that change routes, interfaces or parameters. A DEL that
//! succeeds has removed everything, and one that fails leaves what the next DEL needs to do so.

use std::cell::Cell;

use cni_conformance::cases::for_each;
use cni_conformance::injection::{SystemCall, calls_of};
use cni_conformance::{Flavour, Invocation, Nomad, State, plugins};

use crate::rollback::rollback_host::RollbackHost;

#[test]
fn bridge_is_removed_by_the_next_del_whichever_call_fails() {
    every_call_fails_once("bridge", &Nomad::default());
}

#[test]
fn ptp_is_removed_by_the_next_del_whichever_call_fails() {
    every_call_fails_once("ptp", &Nomad::default().dual_stack());
}

#[test]
fn macvlan_is_removed_by_the_next_del_whichever_call_fails() {
    every_call_fails_once("macvlan", &Nomad::default());
}

#[test]
fn tap_is_removed_by_the_next_del_whichever_call_fails() {
    every_call_fails_once("tap", &Nomad::default());
}

#[test]
fn tc_redirect_tap_is_removed_by_the_next_del_whichever_call_fails() {
    every_call_fails_once("tc-redirect-tap", &Nomad::default());
}

#[test]
fn host_device_goes_back_with_the_next_del_whatever_call_fails() {
    every_call_fails_once("host-device", &Nomad::default());
}

#[test]
fn sbr_restores_the_routes_with_the_next_del_whatever_call_fails() {
    every_call_fails_once("sbr", &Nomad::default().dual_stack());
}

#[test]
fn bandwidth_is_removed_by_the_next_del_whichever_call_fails() {
    every_call_fails_once("bandwidth", &Nomad::default());
}

/// It does not fail when it cannot set something back, and keeps what the next DEL needs for it.
#[test]
fn tuning_is_restored_by_the_next_del_whichever_call_fails() {
    every_call_fails_once("tuning", &Nomad::default());
}

/// The plugins that have a test above, and those whose DEL is tried elsewhere: they make rules or leases, or nothing.
const OWN_TEST: [&str; 14] = [
    "bridge",
    "ptp",
    "macvlan",
    "tap",
    "host-device",
    "sbr",
    "bandwidth",
    "tuning",
    "consul-cni",
    "firewall",
    "portmap",
    "host-local",
    "loopback",
    "static",
];

#[test]
fn every_other_plugin_is_removed_by_the_next_del_whichever_call_fails() {
    for plugin in plugins::that_can_add().into_iter().filter(|plugin| !OWN_TEST.contains(plugin)) {
        every_call_fails_once(plugin, &Nomad::default());
    }
}

fn every_call_fails_once(plugin: &'static str, nomad: &Nomad) {
    let machine = RollbackHost::new(plugin, nomad, Flavour::Nft);
    remove_caches(&machine);
    let before = machine.state();
    let calls = calls_of(&added(&machine));
    let tried = Cell::new(0);
    for_each(calls.into_iter().map(|call| (call.label(), call)), |call| {
        tried.set(tried.get() + u32::from(fail_one_call(&machine, &before, &call)));
    });
    assert!(tried.get() > 0, "{plugin} made none of the calls");
}

/// Prepares the plugin's DEL after its ADD.
fn added(machine: &RollbackHost) -> Invocation {
    machine.del(&machine.add().run().result())
}

/// Tells whether the call was made and failed; not every run makes them in the same number.
fn fail_one_call(machine: &RollbackHost, before: &State, call: &SystemCall) -> bool {
    let del = added(machine);
    let injected = call.fail_in(&del);
    if !injected.outcome.succeeded() {
        injected.expect_error();
    }
    if !injected.outcome.succeeded() || machine.plugin == "tuning" {
        del.run().expect_success();
    }
    remove_caches(machine);
    machine.left_nothing_since(before);
    injected.line.is_some()
}

/// Removes indexes of leases and empty folders: where the call that failed was to remove one, a later ADD or DEL does.
pub fn remove_caches(machine: &RollbackHost) {
    machine.sandbox.exec(&["find", "/run/cni/nomad/.cni-plugins-rs", "-type", "f", "-delete"]);
    machine.sandbox.exec(&["find", "/run/cni", "-mindepth", "1", "-type", "d", "-empty", "-delete"]);
}
