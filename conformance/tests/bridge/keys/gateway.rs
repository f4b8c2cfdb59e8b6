//! `isGateway`, `isDefaultGateway`, `forceAddress`: the bridge's own addresses, and forwarding.

use cni_conformance::cases::for_each;
use cni_conformance::{Network, Outcome, Sandbox, Verb, at_once};
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, V6, delegated, network, with};

fn bridge_addresses(sandbox: &Sandbox) -> Vec<String> {
    Network::observe(sandbox.host()).addresses_of("br0")
}

/// Reads the switches of both families.
fn forwarding(sandbox: &Sandbox) -> [bool; 2] {
    ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"].map(|key| sandbox.sysctl(key) == "1")
}

#[test]
fn without_is_gateway_the_bridge_has_no_address_and_the_host_does_not_forward() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4, V6], json!({"isGateway": false})));
    let result = port.add();
    assert_eq!(bridge_addresses(&sandbox), [""; 0]);
    assert_eq!(forwarding(&sandbox), [false, false]);
    // The IPAM plugin's word is passed on, though nobody here has that address.
    assert_eq!(result["ips"][0]["gateway"], "10.1.2.1");
    assert_eq!(port.routes(), [""; 0]);
    port.check(&result);
}

#[test]
fn is_gateway_puts_the_gateway_on_the_bridge_and_forwards_the_families_in_use() {
    let v4: (&[&str], &[&str], _) = (&[V4], &["10.1.2.1/24"], [true, false]);
    let v6: (&[&str], &[&str], _) = (&[V6], &["fd00:1::1/64"], [false, true]);
    let both: (&[&str], &[&str], _) = (&[V4, V6], &["10.1.2.1/24", "fd00:1::1/64"], [true, true]);
    for_each([("IPv4", v4), ("IPv6", v6), ("both", both)], |(subnets, gateways, forwarded)| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", network(subnets, json!({"isGateway": true})));
        let result = port.add();
        assert_eq!(bridge_addresses(&sandbox), gateways);
        assert_eq!(forwarding(&sandbox), forwarded);
        let host = Network::observe(sandbox.host());
        assert!(host.addresses.iter().all(|own| own.link != "br0" || own.is_link_local() || !own.tentative));
        assert_eq!(port.routes(), [""; 0], "a gateway is not a default gateway");
        for (ip, gateway) in result["ips"].as_array().expect("addresses").iter().zip(gateways) {
            assert_eq!(ip["gateway"].as_str(), gateway.split('/').next());
        }
        port.check(&result);
        port.del();
        assert_eq!(bridge_addresses(&sandbox), gateways, "the gateway is shared");
        port.add();
        assert_eq!(bridge_addresses(&sandbox), gateways);
    });
}

#[test]
fn an_ipv4_gateway_has_a_broadcast_address_as_ip_would_give_it() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4, V6], json!({"isGateway": true})));
    port.add();
    for network in [Network::observe(sandbox.host()), port.inside()] {
        for own in network.addresses.iter().filter(|own| own.ip.to_string().starts_with("10.")) {
            assert_eq!(own.broadcast.map(|ip| ip.to_string()).as_deref(), Some("10.1.2.255"), "{own}");
        }
    }
}

/// The IPAM plugin may leave the gateway to the bridge plugin: then it is the network's first address.
#[test]
fn a_gateway_that_ipam_does_not_tell_is_the_first_address_of_the_network() {
    let sandbox = Sandbox::new();
    let ips = json!([
        {"address": "10.1.2.77/24"}, {"address": "fd00:1::77/64"},
        {"address": "10.1.3.9/24", "gateway": "10.1.3.200"},
    ]);
    let config = delegated(&json!({"cniVersion": "1.0.0", "ips": ips}), json!({"isGateway": true}));
    let port = Port::new(&sandbox, "id1", config);
    let result = port.add();
    assert_eq!(bridge_addresses(&sandbox), ["10.1.2.1/24", "10.1.3.200/24", "fd00:1::1/64"]);
    let gateways: Vec<&Value> = result["ips"].as_array().expect("addresses").iter().map(|ip| &ip["gateway"]).collect();
    assert_eq!(gateways, ["10.1.2.1", "fd00:1::1", "10.1.3.200"]);
    port.check(&result);
}

#[test]
fn without_is_gateway_a_missing_gateway_stays_missing() {
    let sandbox = Sandbox::new();
    let config = delegated(&json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.77/24"}]}), json!({}));
    let result = Port::new(&sandbox, "id1", config).add();
    assert_eq!(result["ips"], json!([{"address": "10.1.2.77/24", "interface": 2}]));
}

/// It implies `isGateway`. A default route that IPAM gives with a router is left as it is.
#[test]
fn is_default_gateway_adds_a_default_route_of_each_family() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4, V6], json!({"isDefaultGateway": true, "isGateway": false})));
    let result = port.add();
    assert_eq!(bridge_addresses(&sandbox), ["10.1.2.1/24", "fd00:1::1/64"]);
    assert_eq!(forwarding(&sandbox), [true, true]);
    assert_eq!(port.routes(), ["0.0.0.0/0 via 10.1.2.1 dev eth0", "::/0 via fd00:1::1 dev eth0 metric 1024"]);
    let reported = json!([{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}, {"dst": "::/0", "gw": "fd00:1::1"}]);
    assert_eq!(result["routes"], reported);
    port.check(&result);
}

#[test]
fn is_default_gateway_leaves_a_default_route_that_ipam_gives() {
    let sandbox = Sandbox::new();
    let routes =
        json!([{"dst": "10.9.0.0/16"}, {"dst": "0.0.0.0/0", "gw": "10.1.2.9"}, {"dst": "::/0", "gw": "fd00:1::9"}]);
    let mut config = network(&[V4, V6], json!({"isDefaultGateway": true}));
    config["ipam"]["routes"] = routes.clone();
    let port = Port::new(&sandbox, "id1", config);
    let result = port.add();
    assert_eq!(result["routes"], routes);
    let expected = [
        "0.0.0.0/0 via 10.1.2.9 dev eth0",
        "10.9.0.0/16 via 10.1.2.1 dev eth0",
        "::/0 via fd00:1::9 dev eth0 metric 1024",
    ];
    assert_eq!(port.routes(), expected);
    port.check(&result);
}

/// Go adds its own beside it, and the kernel refuses the second: `file exists`.
#[test]
fn is_default_gateway_works_with_a_default_route_that_names_no_router() {
    let sandbox = Sandbox::new();
    let mut config = network(&[V4, V6], json!({"isDefaultGateway": true}));
    config["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
    let port = Port::new(&sandbox, "id1", config);
    let result = port.add();
    assert_eq!(port.routes(), ["0.0.0.0/0 via 10.1.2.1 dev eth0", "::/0 via fd00:1::1 dev eth0 metric 1024"]);
    port.check(&result);
}

/// A bridge that has this address, and the network whose gateway is wanted.
fn bridge_with(sandbox: &Sandbox, address: &str) {
    sandbox.sh("ip link add br0 type bridge");
    sandbox.sh("ip link set br0 up");
    let nodad = if address.contains(':') { " nodad" } else { "" };
    sandbox.sh(&format!("ip address add {address} dev br0{nodad}"));
}

/// Addresses that are in the way of a gateway.
const IN_THE_WAY: [(&str, (&str, &str, &str)); 6] = [
    ("another network", ("10.9.9.1/24", V4, "10.1.2.1/24")),
    ("another address of the network", ("10.1.2.200/24", V4, "10.1.2.1/24")),
    ("another prefix", ("10.1.2.1/16", V4, "10.1.2.1/24")),
    ("a wider IPv6 network", ("fd00:1::9/32", V6, "fd00:1::1/64")),
    ("a narrower IPv6 network", ("fd00:1::80/112", V6, "fd00:1::1/64")),
    ("another address of the IPv6 network", ("fd00:1::5/64", V6, "fd00:1::1/64")),
];

#[test]
fn without_force_address_another_address_of_the_bridge_is_refused() {
    for_each(IN_THE_WAY, |(present, subnet, gateway)| {
        let sandbox = Sandbox::new();
        bridge_with(&sandbox, present);
        let port = Port::new(&sandbox, "id1", network(&[subnet], json!({"isGateway": true})));
        port.refused(103, &["\"br0\" already has an IP address different from", gateway, present]);
        assert_eq!(bridge_addresses(&sandbox), [present]);
    });
}

#[test]
fn force_address_replaces_what_is_in_the_way() {
    for_each(IN_THE_WAY, |(present, subnet, gateway)| {
        let sandbox = Sandbox::new();
        bridge_with(&sandbox, present);
        let port = Port::new(&sandbox, "id1", network(&[subnet], json!({"isGateway": true, "forceAddress": true})));
        let result = port.add();
        assert_eq!(bridge_addresses(&sandbox), [gateway]);
        port.check(&result);
    });
}

/// A bridge may serve several IPv6 networks, and one of each family.
#[test]
fn what_is_not_in_the_way_stays_with_and_without_force_address() {
    let addresses = [
        ("another IPv6 network", "fd00:9::1/64", V6),
        ("IPv4 beside IPv6", "10.9.9.1/24", V6),
        ("IPv6 beside IPv4", "fd00:1::9/64", V4),
    ];
    let cases = addresses.map(|(name, present, subnet)| (name, (present, subnet)));
    for force in [false, true] {
        for_each(cases, |(present, subnet)| {
            let sandbox = Sandbox::new();
            bridge_with(&sandbox, present);
            let keys = json!({"isGateway": true, "forceAddress": force});
            let port = Port::new(&sandbox, "id1", network(&[subnet], keys));
            let result = port.add();
            let found = bridge_addresses(&sandbox);
            assert!(found.len() == 2 && found.iter().any(|own| own == present), "{found:?}");
            port.check(&result);
        });
    }
}

#[test]
fn the_gateway_that_is_there_already_is_left_as_it_is() {
    for force in [false, true] {
        let sandbox = Sandbox::new();
        bridge_with(&sandbox, "10.1.2.1/24");
        sandbox.sh("ip address add fd00:1::1/64 dev br0 nodad");
        let before = Network::observe(sandbox.host());
        let keys = json!({"isGateway": true, "forceAddress": force});
        let port = Port::new(&sandbox, "id1", network(&[V4, V6], keys));
        port.add();
        let own = |network: &Network| {
            network.addresses.iter().filter(|own| !own.is_link_local()).cloned().collect::<Vec<_>>()
        };
        assert_eq!(own(&Network::observe(sandbox.host())), own(&before));
    }
}

/// What Nomad's `forceAddress` is for: the subnet was changed in the agent's configuration.
#[test]
fn force_address_moves_the_bridge_to_another_subnet() {
    let sandbox = Sandbox::new();
    let keys = json!({"isGateway": true, "forceAddress": true});
    let old = Port::new(&sandbox, "id1", network(&[V4], keys.clone()));
    old.add();
    let new = Port::new(&sandbox, "id2", with(&network(&["10.1.3.0/24"], keys), &json!({"name": "net2"})));
    let result = new.add();
    assert_eq!(bridge_addresses(&sandbox), ["10.1.3.1/24"]);
    new.check(&result);
    assert!(new.reaches("10.1.3.1", std::time::Duration::from_secs(20)));
    old.del();
    new.check(&result);
}

#[test]
fn forwarding_that_is_on_stays_on() {
    let sandbox = Sandbox::new();
    sandbox.set_sysctl("net/ipv4/ip_forward", "1");
    sandbox.set_sysctl("net/ipv6/conf/all/forwarding", "1");
    let port = Port::new(&sandbox, "id1", network(&[V4, V6], json!({"isGateway": true})));
    port.add();
    port.del();
    assert_eq!(forwarding(&sandbox), [true, true]);
}

/// What the bridge has when its turn comes decides, and not what it had when the ADD began.
#[test]
fn of_two_networks_that_come_at_once_one_gets_the_bridge_and_the_other_is_refused() {
    let rounds: Vec<_> = (0..25).map(|_| two_networks_at_once()).collect();
    for (refused, addresses) in rounds {
        assert_eq!((refused.len(), addresses.len()), (1, 1), "{addresses:?}");
        refused[0].expect_error(103, "\"br0\" already has an IP address different from");
    }
}

/// Returns what was refused, and the addresses of the bridge.
fn two_networks_at_once() -> (Vec<Outcome>, Vec<String>) {
    let sandbox = Sandbox::new();
    let ports = [("one", "10.1.2.0/24"), ("two", "10.9.2.0/24")].map(|(name, subnet)| {
        let config = with(&network(&[subnet], json!({"isGateway": true})), &json!({"name": name}));
        Port::new(&sandbox, name, config)
    });
    let mut outcomes = at_once(&ports.each_ref().map(|port| port.call(Verb::Add)));
    outcomes.retain(|outcome| !outcome.succeeded());
    (outcomes, bridge_addresses(&sandbox))
}

/// ADD waits until the kernel accepts packets to the gateway, by the routes of the bridge alone.
#[test]
fn routing_rules_that_lead_a_gateway_elsewhere_do_not_delay_add() {
    let sandbox = Sandbox::new();
    for line in [
        "ip link add outside type veth peer name far",
        "ip link set outside up",
        "ip link set far up",
        "ip -6 rule add pref 10 lookup local",
        "ip -6 rule del pref 0",
        "ip -6 rule add pref 5 lookup 99",
        "ip -6 route add fd00::/16 dev outside table 99",
    ] {
        sandbox.sh(line);
    }
    let port = Port::new(&sandbox, "id1", network(&[V6], json!({"isGateway": true})));
    let outcome = port.call(Verb::Add).run();
    port.check(&outcome.result());
    assert_eq!(outcome.stderr(), "", "a warning of addresses that are not accepted");
}
