//! Nomad's network and a copy of it under another name, on one bridge.

use cni_conformance::cases::for_each;
use cni_conformance::nomad::{self, GATEWAY_V4, GATEWAY_V6, SUBNET_V4, SUBNET_V6};
use cni_conformance::{Network, Nomad, PortMapping, binaries};

use crate::nomad_lists::life::{ListAllocation, NomadListHost};
use crate::nomad_lists::served::{ALLOC, Served, bridge_copy, own_admin_chain};

const NEIGHBOUR: &str = "1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001";

/// Each network has its own folder of leases, so networks that share a subnet must not assign an address twice.
fn pinned(served: Served, address: &str) -> Served {
    Served { args: nomad::args(ALLOC, "copy", &[("IP", address)]), ..served }
}

fn neighbours() -> Served {
    let served = Served::new(Nomad::default().dual_stack().conflist(), SUBNET_V4, GATEWAY_V4);
    let ports = PortMapping::twins(9090, 90);
    Served { mappings: ports.clone(), published: ports, ..served.and(SUBNET_V6, GATEWAY_V6) }
}

#[test]
fn two_networks_live_on_one_bridge_and_neither_ends_the_other() {
    for_each([("end-to-end", bridge_copy()), ("own admin chain", own_admin_chain())], |copy| {
        let host = NomadListHost::new(binaries::under_test);
        let (nomads, copy) = (neighbours(), pinned(copy, "172.26.64.200"));
        host.prepare(&nomads);
        host.prepare(&copy);
        let neighbour = ListAllocation::start(&host, &nomads, NEIGHBOUR);
        let alloc = ListAllocation::start(&host, &copy, ALLOC);
        let gateways = [GATEWAY_V4, GATEWAY_V6, copy.gateways[1]];
        let found = Network::observe(host.sandbox.host()).addresses_of("nomad");
        let has = |gateway: &str| found.iter().any(|address| address.split('/').next() == Some(gateway));
        assert!(found.len() == gateways.len() && gateways.into_iter().all(has), "{found:?}");
        for one in [&neighbour, &alloc] {
            one.assert_result();
            one.check();
            one.assert_traffic();
        }
        alloc.stop();
        neighbour.check();
        neighbour.assert_traffic();
        let alloc = ListAllocation::start(&host, &copy, "5a0e6f60-3a1c-4a55-8f0e-6f6f7a1d2b02");
        neighbour.stop();
        alloc.check();
        alloc.assert_traffic();
        alloc.stop();
    });
}
