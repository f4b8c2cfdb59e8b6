//! ADD: who reaches a published port, and under which source address.

use cni_conformance::traffic::Echo;
use cni_conformance::{Namespace, State};

use crate::backends::network::{Backend, Family};
use crate::backends::world::{Guest, SERVICE, World};

/// Host ports of the container that is looked at and of its neighbour, and one that nobody has.
const OWN: u16 = 8080;
const NEIGHBOUR: u16 = 8081;
const NOBODYS: u16 = 8082;

/// Works out a cell.
pub fn work_out(world: &World) -> String {
    let before = world.state();
    let own = world.attach("own", OWN);
    let neighbour = world.attach("neighbour", NEIGHBOUR);
    if world.backend == Backend::Nftables {
        assert_no_rule_of_iptables(&before, &world.state());
    }
    let _of_outside = Echo::everywhere(&world.outside, SERVICE);
    for on in [false, true] {
        world.sandbox().set_bridge_filtering(on);
        for family in world.families() {
            published_port(world, family, &own, &neighbour);
            outbound(world, family, &[&own, &neighbour]);
        }
    }
    for family in world.families() {
        foreign_address(world, family, &[&own.container, &neighbour.container, world.sandbox().host()]);
        world.misses(&world.outside, family.host, NOBODYS);
    }
    world.passes_sctp(&own);
    world.passes_sctp(&neighbour);
    world.runtime().check(&own.attachment).expect_success();
    world.to_string()
}

/// From outside, from the host, from the neighbour and from the container itself.
fn published_port(world: &World, family: &Family, own: &Guest, neighbour: &Guest) {
    let Family { host, outside, gateway, loopback, .. } = *family;
    let here = world.sandbox().host();
    world.reaches(&world.outside, host, OWN, outside);
    world.reaches(here, host, OWN, host);
    world.reaches(here, gateway, OWN, gateway);
    for address in [host, gateway] {
        world.reaches(&neighbour.container, address, OWN, gateway);
        world.reaches(&own.container, address, OWN, gateway);
        world.reaches(&own.container, address, NEIGHBOUR, gateway);
    }
    if let Some(loopback) = loopback {
        world.reaches(here, loopback, OWN, gateway);
    }
}

/// Connections that containers open have the host's address, and those between them their own.
fn outbound(world: &World, family: &Family, [own, neighbour]: &[&Guest; 2]) {
    world.reaches(&own.container, family.outside, SERVICE, family.host);
    world.reaches(&neighbour.container, own.ip(family), SERVICE, neighbour.ip(family));
}

/// CVE-2025-67499: the same port of an address that is not the host's is not the container's. Whoever serves there
/// is asked, and when that one has gone, nobody answers.
fn foreign_address(world: &World, family: &Family, askers: &[&Namespace]) {
    let servers = Echo::everywhere(&world.outside, OWN);
    for asker in askers {
        world.reaches(asker, family.outside, OWN, family.host);
    }
    drop(servers);
    for asker in askers {
        world.misses(asker, family.outside, OWN);
    }
}

fn assert_no_rule_of_iptables(before: &State, after: &State) {
    for program in ["iptables", "ip6tables"] {
        for table in ["nat", "filter"] {
            let section = format!("{program} {table}");
            assert_eq!(before.section(&section), after.section(&section), "{section}");
        }
    }
}
