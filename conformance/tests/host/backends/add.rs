//! ADD: who reaches a published port, and under which source address.

use cni_conformance::traffic::Echo;
use cni_conformance::{Namespace, State};

use crate::backends::backend_host::{BackendHost, SERVICE, ServingContainer};
use crate::backends::network::{Backend, FamilyTexts};

/// Host ports of the container that is looked at and of its neighbour, and one that nobody has.
const OWN: u16 = 8080;
const NEIGHBOUR: u16 = 8081;
const NOBODYS: u16 = 8082;

/// Works out a cell.
pub fn work_out(machine: &BackendHost) -> String {
    let before = machine.state();
    let own = machine.attach("own", OWN);
    let neighbour = machine.attach("neighbour", NEIGHBOUR);
    if machine.backend == Backend::Nftables {
        assert_no_rule_of_iptables(&before, &machine.state());
    }
    let _of_outside = Echo::everywhere(&machine.outside, SERVICE);
    for on in [false, true] {
        machine.sandbox().set_bridge_filtering(on);
        for family in machine.families() {
            published_port(machine, family, &own, &neighbour);
            outbound(machine, family, &[&own, &neighbour]);
        }
    }
    for family in machine.families() {
        foreign_address(machine, family, &[&own.container, &neighbour.container, machine.sandbox().host()]);
        machine.misses(&machine.outside, family.host, NOBODYS);
    }
    machine.passes_sctp(&own);
    machine.passes_sctp(&neighbour);
    machine.runtime().check(&own.attachment).expect_success();
    machine.to_string()
}

/// From outside, from the host, from the neighbour and from the container itself.
fn published_port(machine: &BackendHost, family: &FamilyTexts, own: &ServingContainer, neighbour: &ServingContainer) {
    let FamilyTexts { host, outside, gateway, loopback, .. } = *family;
    let here = machine.sandbox().host();
    machine.reaches(&machine.outside, host, OWN, outside);
    machine.reaches(here, host, OWN, host);
    machine.reaches(here, gateway, OWN, gateway);
    for address in [host, gateway] {
        machine.reaches(&neighbour.container, address, OWN, gateway);
        machine.reaches(&own.container, address, OWN, gateway);
        machine.reaches(&own.container, address, NEIGHBOUR, gateway);
    }
    if let Some(loopback) = loopback {
        machine.reaches(here, loopback, OWN, gateway);
    }
}

/// Connections that containers open have the host's address, and those between them their own.
fn outbound(machine: &BackendHost, family: &FamilyTexts, [own, neighbour]: &[&ServingContainer; 2]) {
    machine.reaches(&own.container, family.outside, SERVICE, family.host);
    machine.reaches(&neighbour.container, own.ip(family), SERVICE, neighbour.ip(family));
}

/// CVE-2025-67499: the same port of an address that is not the host's is not the container's. The program that serves
/// there is asked, and after it has ended, nobody answers.
fn foreign_address(machine: &BackendHost, family: &FamilyTexts, askers: &[&Namespace]) {
    let servers = Echo::everywhere(&machine.outside, OWN);
    for asker in askers {
        machine.reaches(asker, family.outside, OWN, family.host);
    }
    drop(servers);
    for asker in askers {
        machine.misses(asker, family.outside, OWN);
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
