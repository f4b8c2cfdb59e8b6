//! What ADD answers: the three interfaces, the addresses on the third of them, nothing of IPAM's own.

use cni_conformance::cases::for_each;
use cni_conformance::{Network, Sandbox};
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, V6, delegated, network, text};

/// The old versions in one shape, and the one that came with 0.3.0.
const BY_FAMILY: [&str; 2] = ["0.1.0", "0.2.0"];
const DECLARED: [&str; 3] = ["0.3.0", "0.3.1", "0.4.0"];
const SORTED: [&str; 2] = ["1.0.0", "1.1.0"];

/// A network with all that a result can tell, of both families and twice of IPv4.
fn rich(version: &str) -> Value {
    let ips = json!([
        {"address": "10.1.2.7/24", "gateway": "10.1.2.254", "interface": 0},
        {"address": "fd00:1::7/64"},
        {"address": "10.1.3.7/24"},
    ]);
    let routes = json!([
        {"dst": "0.0.0.0/0"},
        {"dst": "10.9.0.0/16", "gw": "10.1.2.9", "mtu": 1300, "advmss": 1200, "priority": 7, "table": 100, "scope": 0},
        {"dst": "fd00:9::/64", "gw": "fd00:1::9"},
    ]);
    let dns = json!({"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]});
    let interfaces = json!([{"name": "of-ipam", "mac": "02:00:00:00:00:01", "sandbox": "/elsewhere"}]);
    let ipam = json!({"cniVersion": "1.0.0", "interfaces": interfaces, "ips": ips, "routes": routes, "dns": dns});
    delegated(&ipam, json!({"cniVersion": version, "isGateway": true}))
}

/// What the kernel says of the interfaces, as a result tells it.
fn interfaces(sandbox: &Sandbox, port: &Port<'_>) -> Value {
    let host = Network::observe(sandbox.host());
    let host_end = host.links.iter().find(|link| link.controller.is_some()).expect("a port of the bridge");
    json!([
        {"name": "br0", "mac": host.link("br0").expect("br0").mac},
        {"name": host_end.name, "mac": host_end.mac},
        {"name": "eth0", "mac": port.interface().mac, "sandbox": port.container.path()},
    ])
}

#[test]
fn each_version_tells_what_it_has_words_for() {
    for_each(BY_FAMILY.iter().chain(&DECLARED).chain(&SORTED).map(|version| (version, *version)), |version| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", rich(version));
        let result = port.add();
        let dns = json!({"nameservers": ["192.0.2.53"], "domain": "d", "search": ["s"], "options": ["o"]});
        let routes = json!([
            {"dst": "0.0.0.0/0"},
            {"dst": "10.9.0.0/16", "gw": "10.1.2.9", "mtu": 1300, "advmss": 1200, "priority": 7, "table": 100, "scope": 0},
            {"dst": "fd00:9::/64", "gw": "fd00:1::9"},
        ]);
        let ip = |address: &str, gateway: &str| json!({"address": address, "gateway": gateway, "interface": 2});
        let ips = [ip("10.1.2.7/24", "10.1.2.254"), ip("fd00:1::7/64", "fd00:1::1"), ip("10.1.3.7/24", "10.1.3.1")];
        let expected = if BY_FAMILY.contains(&version) {
            json!({
                "cniVersion": version, "dns": dns,
                "ip4": {
                    "ip": "10.1.2.7/24", "gateway": "10.1.2.254",
                    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.1.2.9"}],
                },
                "ip6": {
                    "ip": "fd00:1::7/64", "gateway": "fd00:1::1",
                    "routes": [{"dst": "fd00:9::/64", "gw": "fd00:1::9"}],
                },
            })
        } else {
            let mut ips = ips.to_vec();
            if DECLARED.contains(&version) {
                for (ip, family) in ips.iter_mut().zip(["4", "6", "4"]) {
                    ip["version"] = json!(family);
                }
            }
            let interfaces = interfaces(&sandbox, &port);
            json!({"cniVersion": version, "interfaces": interfaces, "ips": ips, "routes": routes, "dns": dns})
        };
        assert_eq!(result, expected);
        if version >= "0.4.0" {
            port.check(&result);
        }
        port.del();
    });
}

/// An older configuration is given the same container, whatever its result can tell.
#[test]
fn the_kernel_is_the_same_in_every_version() {
    let mut seen: Vec<(Vec<String>, Vec<String>, Vec<String>)> = Vec::new();
    for version in BY_FAMILY.iter().chain(&DECLARED).chain(&SORTED) {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", rich(version));
        port.add();
        let inside = port.inside();
        let on_bridge = Network::observe(sandbox.host()).addresses_of("br0");
        seen.push((inside.addresses_of("eth0"), port.routes(), on_bridge));
    }
    assert_eq!(seen[0].0, ["10.1.2.7/24", "10.1.3.7/24", "fd00:1::7/64"]);
    assert_eq!(seen[0].1.len(), 3, "{:?}", seen[0].1);
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
}

/// A route of a family that the container has no address of has no place there, so that the bridge
/// plugin does not hear of it from an IPAM plugin that answers in this version.
#[test]
fn only_one_family_is_in_the_result_when_there_is_only_one() {
    for version in BY_FAMILY {
        for (subnet, family, other) in [(V4, "ip4", "ip6"), (V6, "ip6", "ip4")] {
            let sandbox = Sandbox::new();
            let mut config = network(&[subnet], json!({"cniVersion": version, "isGateway": true}));
            config["ipam"]["routes"] = json!([{"dst": "10.9.0.0/16"}, {"dst": "fd00:9::/64"}]);
            let port = Port::new(&sandbox, "id1", config);
            let result = port.add();
            assert!(result.get(family).is_some() && result.get(other).is_none(), "{result}");
            assert_eq!(result[family]["routes"].as_array().map(Vec::len), Some(1), "{result}");
            assert_eq!(port.routes().len(), 1, "{:?}", port.routes());
        }
    }
}

#[test]
fn the_sandbox_is_in_the_result_as_the_runtime_wrote_it() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], json!({})));
    std::os::unix::fs::symlink(port.container.path(), "/run/other-name").expect("link a namespace");
    for path in ["/run/other-name", "/run/netns/../netns/id1", "//run/netns/id1"] {
        let result = port.call(cni_conformance::Verb::Add).netns(path).run().result();
        assert_eq!(text(&result["interfaces"][2]["sandbox"]), path);
        port.call_check(&result).netns(path).run().expect_success();
        port.call(cni_conformance::Verb::Del).netns(path).run().expect_success();
    }
}
