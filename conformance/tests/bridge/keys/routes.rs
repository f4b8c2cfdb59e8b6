//! Routes of the IPAM plugin: added as given, and listed in the result.

use cni_conformance::Sandbox;
use cni_conformance::cases::for_each;
use cni_conformance::network::Route;
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, V6, delegated, network};

/// A network of both families, 10.1.2.1 and fd00:1::1 its gateways, with these routes.
fn with_routes(routes: &Value) -> Value {
    let mut config = network(&[V4, V6], json!({"isGateway": true}));
    config["ipam"]["routes"] = routes.clone();
    config
}

/// Adds a container with these routes, and returns the kernel's of these destinations.
#[track_caller]
fn installed(routes: &Value) -> Vec<Route> {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", with_routes(routes));
    let result = port.add();
    assert_eq!(result["routes"], *routes);
    port.check(&result);
    let network = port.inside();
    let destinations: Vec<&str> =
        routes.as_array().expect("routes").iter().filter_map(|route| route["dst"].as_str()).collect();
    let all = network.routes.iter().chain(&network.other_routes).filter(|route| route.table != 255);
    let found = all.filter(|route| destinations.contains(&route.destination.as_str())).cloned().collect();
    port.del();
    found
}

#[track_caller]
fn installed_as_text(routes: &Value) -> Vec<String> {
    installed(routes).iter().map(ToString::to_string).collect()
}

#[test]
fn a_route_leads_to_its_own_router_or_else_to_the_gateway() {
    let routes = json!([
        {"dst": "10.9.0.0/16"}, {"dst": "10.8.0.0/16", "gw": "10.1.2.9"},
        {"dst": "fd00:9::/64"}, {"dst": "fd00:8::/64", "gw": "fd00:1::9"},
    ]);
    let expected = [
        "10.8.0.0/16 via 10.1.2.9 dev eth0",
        "10.9.0.0/16 via 10.1.2.1 dev eth0",
        "fd00:8::/64 via fd00:1::9 dev eth0 metric 1024",
        "fd00:9::/64 via fd00:1::1 dev eth0 metric 1024",
    ];
    assert_eq!(installed_as_text(&routes), expected);
}

#[test]
fn default_routes_lead_to_the_gateway_of_their_family() {
    let expected = ["0.0.0.0/0 via 10.1.2.1 dev eth0", "::/0 via fd00:1::1 dev eth0 metric 1024"];
    assert_eq!(installed_as_text(&json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}])), expected);
}

/// Without any gateway a destination is looked for on the link.
#[test]
fn a_route_without_any_router_is_on_the_link() {
    let sandbox = Sandbox::new();
    let ipam = json!({
        "cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}, {"address": "fd00:1::7/64"}],
        "routes": [{"dst": "10.9.0.0/16"}, {"dst": "fd00:9::/64"}],
    });
    let port = Port::new(&sandbox, "id1", delegated(&ipam, json!({})));
    let result = port.add();
    assert_eq!(result["routes"], ipam["routes"]);
    assert_eq!(port.routes(), ["10.9.0.0/16 dev eth0", "fd00:9::/64 dev eth0 metric 1024"]);
    port.check(&result);
}

/// Go accepts these and writes them into the result, but not into the kernel.
#[test]
fn mtu_and_advmss_are_installed() {
    let routes = json!([
        {"dst": "10.9.0.0/16", "mtu": 1300}, {"dst": "10.8.0.0/16", "advmss": 1200},
        {"dst": "fd00:9::/64", "mtu": 1300, "advmss": 1200},
    ]);
    let found: Vec<_> =
        installed(&routes).into_iter().map(|route| (route.destination, route.mtu, route.advmss)).collect();
    let expected = [
        ("10.8.0.0/16".to_owned(), None, Some(1200)),
        ("10.9.0.0/16".to_owned(), Some(1300), None),
        ("fd00:9::/64".to_owned(), Some(1300), Some(1200)),
    ];
    assert_eq!(found, expected);
}

/// Go: CHECK of a route in another table always fails.
#[test]
fn priority_table_and_scope_are_installed() {
    let routes = json!([
        {"dst": "10.9.0.0/16", "priority": 77}, {"dst": "10.8.0.0/16", "table": 100},
        {"dst": "10.7.0.0/16", "scope": 253}, {"dst": "10.6.0.0/16", "table": 4_000_000_000_u32, "priority": 5},
        {"dst": "fd00:9::/64", "priority": 77}, {"dst": "fd00:8::/64", "table": 1000},
    ]);
    let found: Vec<_> = installed(&routes)
        .into_iter()
        .map(|Route { destination, gateway, priority, table, scope, .. }| {
            (destination, gateway.map(|gateway| gateway.to_string()), priority, table, scope)
        })
        .collect();
    let row = |dst: &str, gw: Option<&str>, priority, table, scope| {
        (dst.to_owned(), gw.map(str::to_owned), priority, table, scope)
    };
    let expected = [
        row("10.7.0.0/16", None, None, 254, 253),
        row("10.9.0.0/16", Some("10.1.2.1"), Some(77), 254, 0),
        row("fd00:9::/64", Some("fd00:1::1"), Some(77), 254, 0),
        row("10.8.0.0/16", Some("10.1.2.1"), None, 100, 0),
        row("10.6.0.0/16", Some("10.1.2.1"), Some(5), 4_000_000_000, 0),
        row("fd00:8::/64", Some("fd00:1::1"), Some(1024), 1000, 0),
    ];
    let sorted = |mut rows: Vec<_>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(found), sorted(expected.to_vec()));
}

/// Zero means the main table and the widest scope, and is told as it was given.
#[test]
fn zero_is_the_kernels_default() {
    let routes = json!([{"dst": "10.9.0.0/16", "table": 0, "scope": 0}, {"dst": "fd00:9::/64", "table": 0}]);
    let expected = ["10.9.0.0/16 via 10.1.2.1 dev eth0", "fd00:9::/64 via fd00:1::1 dev eth0 metric 1024"];
    assert_eq!(installed_as_text(&routes), expected);
}

#[test]
fn several_routers_to_one_destination_are_all_installed() {
    let routes = json!([
        {"dst": "10.9.0.0/16", "gw": "10.1.2.8", "priority": 1}, {"dst": "10.9.0.0/16", "gw": "10.1.2.9", "priority": 2},
        {"dst": "fd00:9::/64", "gw": "fd00:1::8"}, {"dst": "fd00:9::/64", "gw": "fd00:1::9"},
    ]);
    let mut found = installed_as_text(&routes);
    found.sort();
    let expected = [
        "10.9.0.0/16 via 10.1.2.8 dev eth0 metric 1",
        "10.9.0.0/16 via 10.1.2.9 dev eth0 metric 2",
        "fd00:9::/64 via fd00:1::8 dev eth0 metric 1024",
        "fd00:9::/64 via fd00:1::9 dev eth0 metric 1024",
    ];
    assert_eq!(found, expected);
}

/// Go: `file exists`.
#[test]
fn a_route_that_is_listed_twice_is_installed_once() {
    let routes =
        json!([{"dst": "10.9.0.0/16"}, {"dst": "10.9.0.0/16"}, {"dst": "fd00:9::/64"}, {"dst": "fd00:9::/64"}]);
    let expected = ["10.9.0.0/16 via 10.1.2.1 dev eth0", "fd00:9::/64 via fd00:1::1 dev eth0 metric 1024"];
    assert_eq!(installed_as_text(&routes), expected);
}

/// A route, the code of its refusal, and the words.
type Refusal = (Value, u64, &'static [&'static str]);

/// What the kernel does not take, or the plugin knows beforehand that it will not. The address goes back.
#[test]
fn a_route_that_cannot_be_installed_is_named_and_all_is_rolled_back() {
    let cases: [(&str, Refusal); 8] = [
        ("host bits", (json!({"dst": "10.9.0.7/16"}), 7, &["10.9.0.7/16", "write 10.9.0.0/16"])),
        (
            "unreachable",
            (json!({"dst": "10.9.0.0/16", "gw": "10.200.0.1"}), 101, &["10.9.0.0/16", "10.200.0.1", "unreachable"]),
        ),
        ("another family", (json!({"dst": "10.9.0.0/16", "gw": "fd00:1::1"}), 7, &["10.9.0.0/16", "fd00:1::1"])),
        ("mtu", (json!({"dst": "10.9.0.0/16", "mtu": -1}), 7, &["10.9.0.0/16", "mtu", "-1"])),
        ("advmss", (json!({"dst": "10.9.0.0/16", "advmss": 4_294_967_296_i64}), 7, &["advmss", "4294967296"])),
        ("priority", (json!({"dst": "10.9.0.0/16", "priority": -7}), 7, &["priority", "-7"])),
        ("table", (json!({"dst": "10.9.0.0/16", "table": -1}), 7, &["table", "-1"])),
        ("scope", (json!({"dst": "10.9.0.0/16", "scope": 256}), 7, &["scope", "256"])),
    ];
    for_each(cases, |(route, code, says)| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", with_routes(&json!([{"dst": "0.0.0.0/0"}, route])));
        port.refused(code, says);
        port.container.sh("test ! -e /run/cni/net1/10.1.2.2");
        port.del();
    });
}

#[test]
fn check_misses_a_route_that_is_gone() {
    let gone = ["10.9.0.0/16", "10.8.0.0/16 table 100", "10.7.0.0/16", "default"];
    for_each(gone.map(|route| (route, route)), |route| {
        let sandbox = Sandbox::new();
        let routes = json!([
            {"dst": "10.9.0.0/16"}, {"dst": "10.8.0.0/16", "table": 100},
            {"dst": "10.7.0.0/16", "scope": 253}, {"dst": "0.0.0.0/0"},
        ]);
        let port = Port::new(&sandbox, "id1", with_routes(&routes));
        let result = port.add();
        port.container.sh(&format!("ip route del {route}"));
        let destination = if route == "default" { "0.0.0.0/0" } else { &route[..11] };
        port.call_check(&result).run().expect_error(100, destination);
    });
}
