//! `ingressPolicy` on every back end: which containers reach each other, across bridges and within one.
//!
//! With firewalld the policy is in iptables, as in the reference.

use cni_conformance::PortMapping;
use cni_conformance::table::work_out;
use cni_conformance::traffic::Echo;
use serde_json::{Value, json};

use crate::backends::network::{Backend, Family, Stack, second};
use crate::backends::world::{Guest, SERVICE, World};

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
        let world = World::new(backend, Stack::Dual).configure("bridge", &json!({"ipMasq": false}));
        let open = second(world.list());
        let world = world.configure("firewall", &keys);
        for family in world.families() {
            world.sandbox().sh(&format!("{} -P FORWARD ACCEPT", family.program));
            world.outside.route_to(family.subnet);
        }
        let (across, within) = (across_bridges(&world, policy, &open), within_a_bridge(&world, policy));
        format!("across bridges {across}, within one {within}; {world}")
    });
}

/// Only where both bridges have the policy. The outside is not stopped, nor what goes there.
fn across_bridges(world: &World, policy: Policy, open: &Value) -> &'static str {
    let own = attach(world, "own", world.list(), 8080);
    let free = attach(world, "free", open, 8081);
    meet(world, &own, &free, true);
    meet(world, &free, &own, true);
    let other = attach(world, "other", &second(world.list()), 8082);
    let reached = policy == Policy::Open;
    for (from, to) in [(&own, &other), (&other, &own), (&free, &own), (&own, &free)] {
        meet(world, from, to, reached);
    }
    world.serves(&own);
    world.serves(&other);
    gets_out(world, &own);
    if reached { "open" } else { "shut" }
}

/// Packets from port to port of a bridge pass the rules only where they are told to, those by a host port always do.
fn within_a_bridge(world: &World, policy: Policy) -> &'static str {
    let [first, second] =
        [("first", 9080), ("second", 9081)].map(|(name, port)| attach(world, name, world.list(), port));
    let isolated = policy == Policy::Isolated;
    for filtering in [false, true] {
        world.sandbox().set_bridge_filtering(filtering);
        meet(world, &first, &second, !(isolated && filtering));
        for Family { host, gateway, .. } in world.families() {
            if isolated {
                world.misses(&first.container, *host, second.port);
            } else {
                world.reaches(&first.container, *host, second.port, *gateway);
            }
        }
    }
    world.runtime().check(&first.attachment).expect_success();
    if isolated { "shut where it filters" } else { "open" }
}

fn attach(world: &World, name: &str, list: &Value, port: u16) -> Guest {
    let mut guest = world.guest(name, &PortMapping::twins(port, SERVICE));
    world.runtime_of(list.clone()).add(&mut guest.attachment).expect_success();
    guest
}

fn gets_out(world: &World, guest: &Guest) {
    let _servers = Echo::everywhere(&world.outside, SERVICE);
    for family in world.families() {
        world.reaches(&guest.container, family.outside, SERVICE, guest.ip(family));
    }
}

fn meet(world: &World, from: &Guest, to: &Guest, reached: bool) {
    for family in world.families() {
        if reached {
            world.reaches(&from.container, to.ip(family), SERVICE, from.ip(family));
        } else {
            world.misses(&from.container, to.ip(family), SERVICE);
        }
    }
}

/// The jump to the rules that let packets pass.
const JUMP: [&str; 6] = ["-m", "comment", "--comment", "CNI firewall plugin rules", "-j", "CNI-FORWARD"];

fn change_jump(world: &World, operation: &str) {
    for family in world.families() {
        world.sandbox().host().must(&[&[family.program, operation, "FORWARD"][..], &JUMP].concat());
    }
}

/// What the rules of a container let pass is asked for nothing any more, so the policy has to be above them.
#[test]
fn a_policy_comes_first_again_after_any_repair() {
    for backend in [Backend::IptablesNft, Backend::IptablesLegacy] {
        let world = World::new(backend, Stack::Dual).configure("bridge", &json!({"ipMasq": false}));
        let open = world.list().clone();
        let world = world.configure("firewall", &json!({"ingressPolicy": "same-bridge"}));
        for family in world.families() {
            world.sandbox().sh(&format!("{} -P FORWARD ACCEPT", family.program));
        }
        let own = attach(&world, "own", world.list(), 8080);
        let other = attach(&world, "other", &second(world.list()), 8081);
        let is_shut = || {
            world.runtime().check(&own.attachment).expect_success();
            meet(&world, &own, &other, false);
            meet(&world, &other, &own, false);
        };
        is_shut();
        for (name, list, port) in [("without-policy", &open, 8082), ("with-policy", world.list(), 8083)] {
            change_jump(&world, "-D");
            attach(&world, name, list, port);
            is_shut();
        }
        change_jump(&world, "-D");
        change_jump(&world, "-I");
        meet(&world, &own, &other, true);
        world.runtime().check(&own.attachment).expect_error("firewall", 100, "CNI-ISOLATION-STAGE-1");
        attach(&world, "next", world.list(), 8084);
        is_shut();
    }
}
