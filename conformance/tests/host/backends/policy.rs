//! `ingressPolicy` on every back end: which containers reach each other, across bridges and within one.
//!
//! With firewalld the policy is in iptables, as in the reference.

use cni_conformance::PortMapping;
use cni_conformance::table::work_out;
use cni_conformance::traffic::Echo;
use serde_json::{Value, json};

use crate::backends::backend_host::{BackendHost, SERVICE, ServingContainer};
use crate::backends::network::{Backend, FamilyTexts, Stack, second};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Open,
    SameBridge,
    Isolated,
}

impl Policy {
    const ALL: [Self; 3] = [Self::Open, Self::SameBridge, Self::Isolated];

    fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::SameBridge => "same-bridge",
            Self::Isolated => "isolated",
        }
    }
}

#[test]
fn a_policy_separates_bridges_and_neighbours() {
    let cells = Backend::ALL.into_iter().flat_map(|backend| {
        Policy::ALL.map(|policy| ([backend.name(), policy.word()].map(str::to_owned), (backend, policy)))
    });
    work_out(["back end", "ingressPolicy"], cells.collect(), |(backend, policy)| {
        let keys = json!({"ingressPolicy": policy.word()});
        // Packets between the bridges keep their addresses.
        let machine = BackendHost::new(backend, Stack::Dual).configure("bridge", &json!({"ipMasq": false}));
        let open = second(machine.list());
        let machine = machine.configure("firewall", &keys);
        for family in machine.families() {
            machine.sandbox().sh(&format!("{} -P FORWARD ACCEPT", family.program));
            machine.outside.route_to(family.subnet);
        }
        let (across, within) = (across_bridges(&machine, policy, &open), within_a_bridge(&machine, policy));
        format!("across bridges {across}, within one {within}; {machine}")
    });
}

/// Only where both bridges have the policy. The outside is not stopped, nor what goes there.
fn across_bridges(machine: &BackendHost, policy: Policy, open: &Value) -> &'static str {
    let own = attach(machine, "own", machine.list(), 8080);
    let free = attach(machine, "free", open, 8081);
    meet(machine, &own, &free, true);
    meet(machine, &free, &own, true);
    let other = attach(machine, "other", &second(machine.list()), 8082);
    let reached = policy == Policy::Open;
    for (from, to) in [(&own, &other), (&other, &own), (&free, &own), (&own, &free)] {
        meet(machine, from, to, reached);
    }
    machine.serves(&own);
    machine.serves(&other);
    gets_out(machine, &own);
    if reached { "open" } else { "shut" }
}

/// Packets from port to port of a bridge pass the rules only where they are told to, those by a host port always do.
fn within_a_bridge(machine: &BackendHost, policy: Policy) -> &'static str {
    let [first, second] =
        [("first", 9080), ("second", 9081)].map(|(name, port)| attach(machine, name, machine.list(), port));
    let isolated = policy == Policy::Isolated;
    for filtering in [false, true] {
        machine.sandbox().set_bridge_filtering(filtering);
        meet(machine, &first, &second, !(isolated && filtering));
        for FamilyTexts { host, gateway, .. } in machine.families() {
            if isolated {
                machine.misses(&first.container, *host, second.port);
            } else {
                machine.reaches(&first.container, *host, second.port, *gateway);
            }
        }
    }
    machine.runtime().check(&first.attachment).expect_success();
    if isolated { "shut where it filters" } else { "open" }
}

fn attach(machine: &BackendHost, name: &str, list: &Value, port: u16) -> ServingContainer {
    let mut attached = machine.attached(name, &PortMapping::twins(port, SERVICE));
    machine.runtime_of(list.clone()).add(&mut attached.attachment).expect_success();
    attached
}

fn gets_out(machine: &BackendHost, attached: &ServingContainer) {
    let _servers = Echo::everywhere(&machine.outside, SERVICE);
    for family in machine.families() {
        machine.reaches(&attached.container, family.outside, SERVICE, attached.ip(family));
    }
}

fn meet(machine: &BackendHost, from: &ServingContainer, to: &ServingContainer, reached: bool) {
    for family in machine.families() {
        if reached {
            machine.reaches(&from.container, to.ip(family), SERVICE, from.ip(family));
        } else {
            machine.misses(&from.container, to.ip(family), SERVICE);
        }
    }
}

/// The jump to the rules that let packets pass.
const JUMP: [&str; 6] = ["-m", "comment", "--comment", "CNI firewall plugin rules", "-j", "CNI-FORWARD"];

fn change_jump(machine: &BackendHost, operation: &str) {
    for family in machine.families() {
        machine.sandbox().host().must(&[&[family.program, operation, "FORWARD"][..], &JUMP].concat());
    }
}

/// What the rules of a container let pass is asked for nothing any more, so the policy has to be above them.
#[test]
fn a_policy_comes_first_again_after_any_repair() {
    for backend in [Backend::IptablesNft, Backend::IptablesLegacy] {
        let machine = BackendHost::new(backend, Stack::Dual).configure("bridge", &json!({"ipMasq": false}));
        let open = machine.list().clone();
        let machine = machine.configure("firewall", &json!({"ingressPolicy": "same-bridge"}));
        for family in machine.families() {
            machine.sandbox().sh(&format!("{} -P FORWARD ACCEPT", family.program));
        }
        let own = attach(&machine, "own", machine.list(), 8080);
        let other = attach(&machine, "other", &second(machine.list()), 8081);
        let is_shut = || {
            machine.runtime().check(&own.attachment).expect_success();
            meet(&machine, &own, &other, false);
            meet(&machine, &other, &own, false);
        };
        is_shut();
        for (name, list, port) in [("without-policy", &open, 8082), ("with-policy", machine.list(), 8083)] {
            change_jump(&machine, "-D");
            attach(&machine, name, list, port);
            is_shut();
        }
        change_jump(&machine, "-D");
        change_jump(&machine, "-I");
        meet(&machine, &own, &other, true);
        machine.runtime().check(&own.attachment).expect_error("firewall", 100, "CNI-ISOLATION-STAGE-1");
        attach(&machine, "next", machine.list(), 8084);
        is_shut();
    }
}
