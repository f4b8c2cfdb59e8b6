//! Reasons of routing: no forwarding, rp_filter, a wrong route in the container, a masquerade that is missing.

use cni_conformance::{Container, Outside, Sandbox};

use super::{ADDRESS, Extra, LOST, OUTSIDE, add, name_of, probe, serve};

/// A container that reaches the outside.
fn with_outside(sandbox: &Sandbox, extra: Extra) -> (Outside, Container) {
    (sandbox.outside(), add(sandbox, "web", extra))
}

#[test]
fn forwarding_that_is_off_is_named() {
    let sandbox = Sandbox::new();
    let (_outside, web) = with_outside(&sandbox, Extra::Firewall);
    let _server = serve(&web, "0.0.0.0:80");
    sandbox.set_sysctl("net/ipv4/ip_forward", "0");
    let says = "dropped since net.ipv4.ip_forward is 0: the host forwards nothing: sysctl -w net.ipv4.ip_forward=1";
    probe(&sandbox, &["8080"], LOST, says);
    probe(&sandbox, &["cnitool-", "to", OUTSIDE], LOST, says);
}

#[test]
fn rp_filter_is_named_with_the_link_that_the_host_expects() {
    let sandbox = Sandbox::new();
    let (_outside, _web) = with_outside(&sandbox, Extra::Firewall);
    sandbox.set_sysctl("net/ipv4/conf/all/rp_filter", "1");
    sandbox.set_sysctl("net/ipv4/conf/cni0/rp_filter", "1");
    sandbox.sh(&format!("ip route add {ADDRESS}/32 dev uplink0"));
    let says = "dropped by rp_filter: it came by cni0, and to its source the host has a route by uplink0: correct the host's route";
    probe(&sandbox, &["cnitool-", "to", OUTSIDE], LOST, says);
}

#[test]
fn a_wrong_route_in_the_container_is_named() {
    let sandbox = Sandbox::new();
    let (_outside, web) = with_outside(&sandbox, Extra::Firewall);
    let name = name_of(ADDRESS);
    web.sh("ip route replace default via 10.22.0.99");
    let says = format!(
        "the route of container {name} to {OUTSIDE} is wrong: it leads to 10.22.0.99, which is no address of this host: "
    );
    probe(&sandbox, &["cnitool-", "to", OUTSIDE], LOST, &says);
    let _server = serve(&web, "0.0.0.0:80");
    let says =
        format!("it came to container {name} at {ADDRESS}:80, whose route back is wrong: it leads to 10.22.0.99");
    probe(&sandbox, &["8080"], LOST, &says);
    web.sh("ip route del default");
    probe(&sandbox, &["cnitool-", "to", OUTSIDE], LOST, &format!("container {name} has no route to {OUTSIDE}: "));
    let says = format!("it came to container {name} at {ADDRESS}:80, which has no route back: ");
    probe(&sandbox, &["8080"], LOST, &says);
}

#[test]
fn a_host_without_a_route_is_named() {
    let sandbox = Sandbox::new();
    let (_outside, _web) = with_outside(&sandbox, Extra::Firewall);
    sandbox.sh("ip route del default");
    let says = "dropped since the host has no route to 203.0.113.9: ";
    probe(&sandbox, &["cnitool-", "to", "203.0.113.9:80"], LOST, says);
}

#[test]
fn a_masquerade_that_is_missing_is_distinguished_from_one_that_is_not_asked_for() {
    let sandbox = Sandbox::new();
    let (outside, _web) = with_outside(&sandbox, Extra::Firewall);
    let _server = serve(&outside, "0.0.0.0:80");
    sandbox.sh("iptables -t nat -F POSTROUTING");
    let own =
        format!("it left the host by uplink0 with the container's own address {ADDRESS}, to which no answer came: ");
    probe(
        &sandbox,
        &["cnitool-", "to", OUTSIDE],
        LOST,
        &format!("{own}the masquerade is missing: cni-plugins repair restores it"),
    );

    let sandbox = Sandbox::new();
    let (outside, _web) = with_outside(&sandbox, Extra::NoMasquerade);
    let _server = serve(&outside, "0.0.0.0:80");
    probe(
        &sandbox,
        &["cnitool-", "to", OUTSIDE],
        LOST,
        &format!("{own}the list asks for no masquerade: write \"ipMasq\": true"),
    );
}
