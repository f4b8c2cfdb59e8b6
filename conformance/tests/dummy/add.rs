//! What ADD makes, and what it answers.

use std::time::Duration;

use cni_conformance::traffic::ping;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Network, Runtime, Sandbox, page};
use serde_json::{Value, json};

use super::{attach, network};

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

#[test]
fn the_container_has_a_dummy_with_the_addresses_and_routes() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let (container, _) = attach(&sandbox, &network(), "c1");
        let network = Network::observe(&container);
        let link = network.link("eth0").expect("the link is there");
        assert_eq!((link.kind.as_deref(), link.up, link.mtu), (Some("dummy"), true, 1500));
        assert_eq!(network.addresses_of("eth0"), ["10.7.0.2/24", "fd00:7::2/64"]);
        let via = |destination: &str| {
            let route = network.routes.iter().find(|route| route.link == "eth0" && route.destination == destination);
            route.unwrap_or_else(|| panic!("no route to {destination}")).gateway.map(|gateway| gateway.to_string())
        };
        assert_eq!(via("10.99.0.0/16").as_deref(), Some("10.7.0.1"));
        assert_eq!(via("::/0").as_deref(), Some("fd00:7::1"));
        assert_eq!(via("10.7.0.0/24"), None);
        assert_eq!(network.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo", "eth0"]);
        assert!(Network::observe(sandbox.host()).links.iter().all(|link| link.name == "lo"), "nothing is on the host");
    });
}

#[test]
fn the_containers_own_services_are_reached_at_once() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let (container, _) = attach(&sandbox, &network(), "c1");
        container.sh("ip link set lo up");
        for address in ["10.7.0.2", "fd00:7::2"] {
            let address = address.parse().expect("an address");
            assert!(ping(&container, address, Duration::from_secs(20)), "{address} does not answer");
        }
    });
}

#[test]
fn each_version_of_the_result_tells_the_link_and_its_addresses() {
    on_a_kernel_with(Feature::DummyLinks, || {
        for version in VERSIONS {
            let sandbox = Sandbox::new();
            let mut list = network();
            list["cniVersion"] = json!(version);
            let (container, attachment) = attach(&sandbox, &list, "c1");
            let network = Network::observe(&container);
            let mac = &network.link("eth0").expect("the link is there").mac;
            assert_eq!(attachment.result, Some(result(version, mac, container.path())), "{version}");
            Runtime::new(&sandbox, list).del(&attachment).expect_success();
        }
    });
}

fn result(version: &str, mac: &str, sandbox: &str) -> Value {
    let routes = [json!({"dst": "10.99.0.0/16"}), json!({"dst": "::/0"})];
    let (ip4, ip6) = (["10.7.0.2/24", "10.7.0.1"], ["fd00:7::2/64", "fd00:7::1"]);
    let interfaces = json!([{"name": "eth0", "mac": mac, "sandbox": sandbox}]);
    match version {
        "0.1.0" | "0.2.0" => {
            let ip = |[ip, gateway]: [&str; 2], route: &Value| json!({"ip": ip, "gateway": gateway, "routes": [route]});
            json!({"cniVersion": version, "ip4": ip(ip4, &routes[0]), "ip6": ip(ip6, &routes[1]), "dns": {}})
        }
        "1.0.0" | "1.1.0" => {
            let ip = |[address, gateway]: [&str; 2]| json!({"interface": 0, "address": address, "gateway": gateway});
            json!({"cniVersion": version, "interfaces": interfaces, "ips": [ip(ip4), ip(ip6)], "routes": routes})
        }
        _ => {
            let ip = |family: &str, [address, gateway]: [&str; 2]| json!({"version": family, "interface": 0, "address": address, "gateway": gateway});
            let ips = [ip("4", ip4), ip("6", ip6)];
            json!({"cniVersion": version, "interfaces": interfaces, "ips": ips, "routes": routes, "dns": {}})
        }
    }
}

// The reference tells the IPAM plugin's alone.
#[test]
fn name_resolution_is_the_configurations_as_a_whole_or_else_ipams() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let reported = json!({"nameservers": ["192.0.2.53"], "domain": "ipam"});
        let rows = [(json!(null), reported.clone()), (json!({"domain": "own"}), json!({"domain": "own"}))];
        for (own, want) in rows {
            let addresses = json!([{"address": "10.7.0.2/24"}]);
            let mut list = super::with_ipam(json!({"type": "static", "addresses": addresses, "dns": reported}));
            list["plugins"][0]["dns"] = own;
            let (_, attachment) = attach(&Sandbox::new(), &list, "c1");
            assert_eq!(attachment.result.expect("attached")["dns"], want);
        }
    });
}

/// Older kernels look for the name on the host as well when a link is moved, not when it is made.
#[test]
fn a_link_of_the_host_may_have_the_same_name() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        sandbox.sh("ip link add eth0 type dummy");
        let (container, attachment) = attach(&sandbox, &network(), "c1");
        let runtime = Runtime::new(&sandbox, network());
        runtime.check(&attachment).expect_success();
        runtime.del(&attachment).expect_success();
        assert!(!super::has_eth0(&container));
        assert!(Network::observe(sandbox.host()).link("eth0").is_some(), "the host's link is gone");
    });
}

/// The plugin's main use: a bridge connects the container, and the dummy has an address of its own.
#[test]
fn it_stands_beside_an_interface_that_connects_the_container() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.8.0.0/24"}]], "dataDir": "/run/other"});
        let list = json!({"cniVersion": "1.0.0", "name": "n2", "plugins": [{"type": "bridge", "ipam": ipam}]});
        let (container, first) = attach(&sandbox, &list, "c1");
        let services = super::with_ipam(json!({"type": "static", "addresses": [{"address": "169.254.169.254/32"}]}));
        let runtime = Runtime::new(&sandbox, services);
        let mut second = Attachment::new("c1", &container).ifname("services");
        runtime.add(&mut second).expect_success();
        assert_eq!(Network::observe(&container).addresses_of("services"), ["169.254.169.254/32"]);
        runtime.check(&second).expect_success();
        runtime.del(&second).expect_success();
        assert_eq!(Network::observe(&container).addresses_of("eth0"), ["10.8.0.2/24"]);
        Runtime::new(&sandbox, list).check(&first).expect_success();
    });
}

#[test]
fn the_example_of_the_page_works() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dummy/README.md")));
        let sandbox = Sandbox::new();
        let (container, attachment) = attach(&sandbox, &list, "c1");
        assert_eq!(Network::observe(&container).addresses_of("eth0"), ["169.254.169.254/32"]);
        let runtime = Runtime::new(&sandbox, list);
        runtime.check(&attachment).expect_success();
        runtime.del(&attachment).expect_success();
        assert!(!super::has_eth0(&container));
    });
}
