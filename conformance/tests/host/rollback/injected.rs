//! Each system call of every plugin fails in turn; plugins that need a server or another kernel have these tests in
//! `dhcp/injected` and `other_kernel/vrf`. A plugin may recover from a failure; then everything must be as if there
//! had been none.

use std::cell::Cell;

use cni_conformance::cases::for_each;
use cni_conformance::injection::{SystemCall, calls_of};
use cni_conformance::{Flavour, Nomad, plugins};

use crate::rollback::deletion::remove_caches;
use crate::rollback::rollback_host::{RollbackHost, networks};

#[test]
fn loopback_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("loopback", &Nomad::default());
}

#[test]
fn host_local_is_rolled_back_whichever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("host-local", &nomad));
}

#[test]
fn bridge_is_rolled_back_whichever_call_fails_on_ipv4() {
    every_call_fails_once("bridge", &Nomad::default());
}

#[test]
fn bridge_is_rolled_back_whichever_call_fails_on_both_families() {
    every_call_fails_once("bridge", &Nomad::default().dual_stack());
}

#[test]
fn macvlan_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("macvlan", &Nomad::default());
}

#[test]
fn tap_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("tap", &Nomad::default());
}

#[test]
fn tc_redirect_tap_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("tc-redirect-tap", &Nomad::default().dual_stack());
}

#[test]
fn ptp_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("ptp", &Nomad::default().dual_stack());
}

#[test]
fn host_device_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("host-device", &Nomad::default());
}

#[test]
fn firewall_is_rolled_back_whichever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("firewall", &nomad));
}

#[test]
fn tuning_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("tuning", &Nomad::default());
}

#[test]
fn sbr_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("sbr", &Nomad::default().dual_stack());
}

#[test]
fn bandwidth_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("bandwidth", &Nomad::default());
}

#[test]
fn consul_cni_is_rolled_back_whichever_call_fails() {
    every_call_fails_once("consul-cni", &Nomad::default());
}

#[test]
fn portmap_is_rolled_back_whichever_call_fails() {
    for_each(networks(), |nomad| every_call_fails_once("portmap", &nomad));
}

/// The plugins that have a test above.
const OWN_TEST: [&str; 13] = [
    "loopback",
    "host-local",
    "bridge",
    "macvlan",
    "tap",
    "ptp",
    "host-device",
    "firewall",
    "tuning",
    "sbr",
    "bandwidth",
    "consul-cni",
    "portmap",
];

#[test]
fn every_other_plugin_is_rolled_back_whichever_call_fails() {
    for plugin in plugins::that_can_add().into_iter().filter(|plugin| !OWN_TEST.contains(plugin)) {
        every_call_fails_once(plugin, &Nomad::default());
    }
}

fn every_call_fails_once(plugin: &'static str, nomad: &Nomad) {
    let calls = calls_of(&RollbackHost::new(plugin, nomad, Flavour::Nft).add());
    let tried = Cell::new(0);
    for_each(calls.into_iter().map(|call| (call.label(), call)), |call| {
        let machine = RollbackHost::new(plugin, nomad, Flavour::Nft);
        tried.set(tried.get() + u32::from(fail_one_call(&machine, &call)));
    });
    assert!(tried.get() > 0, "{plugin} made none of the calls");
}

/// Tells whether the call was made and failed; not every run makes them in the same number.
fn fail_one_call(machine: &RollbackHost, call: &SystemCall) -> bool {
    remove_caches(machine);
    let before = machine.state();
    let injected = call.fail_in(&machine.add());
    if injected.outcome.succeeded() {
        let result = injected.outcome.result();
        machine.check(&result).run().expect_success();
        // Those that make rules mark the attachment, until the DEL of the plugin that has made its interface.
        if !["consul-cni", "firewall", "portmap"].contains(&machine.plugin) {
            machine.del(&result).run().expect_success();
            remove_caches(machine);
            machine.left_nothing_since(&before);
        }
        return injected.line.is_some();
    }
    injected.expect_error();
    machine.left_nothing_since(&before);
    machine.succeeds_now();
    true
}
