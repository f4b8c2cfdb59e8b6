//! Names and addresses that others have already.

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Nomad};
use serde_json::json;

use crate::rollback::stage::{Stage, networks};

/// SPEC: ADD must fail when an interface of this name exists. It is somebody else's, so it stays.
#[test]
fn an_add_spares_a_foreign_eth0() {
    for_each(networks(), |nomad| {
        let stage = Stage::new("bridge", &nomad, Flavour::Nft);
        stage.container.sh("ip link add eth0 type veth peer name foreign0");
        stage.container.sh("ip address add 10.5.5.5/24 dev eth0");
        stage.container.sh("ip link set eth0 up");
        stage.container.sh("ip link set foreign0 up");
        stage.fails(&stage.add(), &["eth0", "exists"]);
        stage.container.sh("ip link del eth0");
        stage.succeeds_now();
    });
}

#[test]
fn an_add_spares_a_link_that_has_the_bridges_name() {
    for_each(networks(), |nomad| {
        let stage = Stage::new("bridge", &nomad, Flavour::Nft);
        stage.sandbox.sh("ip link add nomad type veth peer name foreign0");
        stage.fails(&stage.add(), &["nomad", "not a bridge"]);
        stage.sandbox.sh("ip link del nomad");
        stage.succeeds_now();
    });
}

/// The bridge has another network's address, and nobody allowed to take it away.
#[test]
fn an_add_spares_a_foreign_address_of_the_bridge() {
    for_each(networks(), |nomad| {
        let mut list = nomad.conflist();
        list["plugins"][1]["forceAddress"] = json!(false);
        let stage = Stage::with_list("bridge", &nomad, list, Flavour::Nft);
        stage.sandbox.sh("ip link add nomad type bridge");
        stage.sandbox.sh("ip address add 10.5.5.1/24 dev nomad");
        stage.sandbox.sh("ip link set nomad up");
        stage.fails(&stage.add(), &["nomad", "already has an IP address different from"]);
        stage.sandbox.sh("ip address del 10.5.5.1/24 dev nomad");
        stage.succeeds_now();
    });
}

/// A route that IPAM wants, but that leads nowhere.
#[test]
fn an_add_with_an_impossible_route_leaves_nothing() {
    for_each(networks(), |nomad| {
        let mut list = nomad.conflist();
        let routes = list["plugins"][1]["ipam"]["routes"].as_array_mut().expect("a list of routes");
        routes.push(json!({"dst": "10.77.0.0/16", "gw": "192.0.2.99"}));
        let stage = Stage::with_list("bridge", &nomad, list, Flavour::Nft);
        stage.fails(&stage.add(), &["10.77.0.0"]);
        Stage::new("bridge", &nomad, Flavour::Nft).succeeds_now();
    });
}

/// Results of 0.2.0 are made of addresses, and this network has none.
#[test]
fn an_add_whose_result_cannot_be_written_in_its_version_leaves_nothing() {
    let nomad = Nomad::default();
    let list = |version: &str| json!({"cniVersion": version, "name": "nomad", "plugins": [{"type": "bridge", "bridge": "nomad"}]});
    for version in ["0.1.0", "0.2.0"] {
        let stage = Stage::with_list("bridge", &nomad, list(version), Flavour::Nft);
        stage.fails(&stage.add(), &["no valid IP addresses"]);
        let mut config = list("1.0.0")["plugins"][0].clone();
        config["cniVersion"] = json!("1.0.0");
        config["name"] = json!("nomad");
        stage.add().config(&config).run().result();
    }
}

/// A `lo` with an address that belongs elsewhere.
#[test]
fn a_loopback_add_that_fails_leaves_lo_down() {
    let stage = Stage::new("loopback", &Nomad::default(), Flavour::Nft);
    stage.container.sh("ip address add 10.9.9.9/32 dev lo");
    stage.fails(&stage.add(), &["non-loopback address", "10.9.9.9"]);
    stage.container.sh("ip address del 10.9.9.9/32 dev lo");
    stage.succeeds_now();
}
