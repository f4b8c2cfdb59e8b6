//! Names and addresses that others have already.

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Nomad};
use serde_json::json;

use crate::rollback::rollback_host::{RollbackHost, networks};

/// SPEC: ADD must fail when an interface of this name exists. It is somebody else's, so it stays.
#[test]
fn an_add_spares_a_foreign_eth0() {
    for_each(networks(), |nomad| {
        let machine = RollbackHost::new("bridge", &nomad, Flavour::Nft);
        machine.container.sh("ip link add eth0 type veth peer name foreign0");
        machine.container.sh("ip address add 10.5.5.5/24 dev eth0");
        machine.container.sh("ip link set eth0 up");
        machine.container.sh("ip link set foreign0 up");
        machine.fails(&machine.add(), &["eth0", "exists"]);
        machine.container.sh("ip link del eth0");
        machine.succeeds_now();
    });
}

#[test]
fn an_add_spares_a_link_that_has_the_bridges_name() {
    for_each(networks(), |nomad| {
        let machine = RollbackHost::new("bridge", &nomad, Flavour::Nft);
        machine.sandbox.sh("ip link add nomad type veth peer name foreign0");
        machine.fails(&machine.add(), &["nomad", "not a bridge"]);
        machine.sandbox.sh("ip link del nomad");
        machine.succeeds_now();
    });
}

/// The bridge has another network's address, and nobody allowed to take it away.
#[test]
fn an_add_spares_a_foreign_address_of_the_bridge() {
    for_each(networks(), |nomad| {
        let mut list = nomad.conflist();
        list["plugins"][1]["forceAddress"] = json!(false);
        let machine = RollbackHost::with_list("bridge", &nomad, list, Flavour::Nft);
        machine.sandbox.sh("ip link add nomad type bridge");
        machine.sandbox.sh("ip address add 10.5.5.1/24 dev nomad");
        machine.sandbox.sh("ip link set nomad up");
        machine.fails(&machine.add(), &["nomad", "already has an IP address different from"]);
        machine.sandbox.sh("ip address del 10.5.5.1/24 dev nomad");
        machine.succeeds_now();
    });
}

/// A route that IPAM wants, but that leads nowhere.
#[test]
fn an_add_with_an_impossible_route_leaves_nothing() {
    for_each(networks(), |nomad| {
        let mut list = nomad.conflist();
        let routes = list["plugins"][1]["ipam"]["routes"].as_array_mut().expect("a list of routes");
        routes.push(json!({"dst": "10.77.0.0/16", "gw": "192.0.2.99"}));
        let machine = RollbackHost::with_list("bridge", &nomad, list, Flavour::Nft);
        machine.fails(&machine.add(), &["10.77.0.0"]);
        RollbackHost::new("bridge", &nomad, Flavour::Nft).succeeds_now();
    });
}

/// Results of 0.2.0 are made of addresses, and this network has none.
#[test]
fn an_add_whose_result_cannot_be_written_in_its_version_leaves_nothing() {
    let nomad = Nomad::default();
    let list = |version: &str| json!({"cniVersion": version, "name": "nomad", "plugins": [{"type": "bridge", "bridge": "nomad"}]});
    for version in ["0.1.0", "0.2.0"] {
        let machine = RollbackHost::with_list("bridge", &nomad, list(version), Flavour::Nft);
        machine.fails(&machine.add(), &["no valid IP addresses"]);
        let mut config = list("1.0.0")["plugins"][0].clone();
        config["cniVersion"] = json!("1.0.0");
        config["name"] = json!("nomad");
        machine.add().config(&config).run().result();
    }
}

/// A `lo` with an address that belongs elsewhere.
#[test]
fn a_loopback_add_that_fails_leaves_lo_down() {
    let machine = RollbackHost::new("loopback", &Nomad::default(), Flavour::Nft);
    machine.container.sh("ip address add 10.9.9.9/32 dev lo");
    machine.fails(&machine.add(), &["non-loopback address", "10.9.9.9"]);
    machine.container.sh("ip address del 10.9.9.9/32 dev lo");
    machine.succeeds_now();
}
