//! What ADD makes, and what it answers.

use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Network, Runtime, page};
use serde_json::{Value, json};

use super::{KINDS, MasterHost, UPLINK, has_eth0, of_both_families, plugin};

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

#[test]
fn the_container_has_the_link_with_the_addresses_and_routes() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let before = machine.links();
        let (container, _) = machine.attach(&machine.network(&json!({"ipam": of_both_families()})), "c1");
        let network = Network::observe(&container);
        let link = network.link("eth0").expect("the link is there");
        assert_eq!((link.kind.as_deref(), link.up, link.mtu), (Some(plugin(kind)), true, 1500));
        assert_eq!(network.addresses_of("eth0"), ["10.7.0.2/24", "fd00:7::2/64"]);
        let via = |destination: &str| {
            let route = network.routes.iter().find(|route| route.link == "eth0" && route.destination == destination);
            route.unwrap_or_else(|| panic!("no route to {destination}")).gateway.map(|gateway| gateway.to_string())
        };
        assert_eq!(via("0.0.0.0/0").as_deref(), Some("10.7.0.1"));
        assert_eq!(via("::/0").as_deref(), Some("fd00:7::1"));
        assert_eq!(via("10.7.0.0/24"), None);
        assert_eq!(network.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo", "eth0"]);
        assert_eq!(machine.links(), before, "the host has another link");
    });
}

#[test]
fn each_version_of_the_result_tells_the_link_and_its_address() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        for version in VERSIONS {
            let mut list = machine.network(&json!({}));
            list["cniVersion"] = json!(version);
            let (container, attachment) = machine.attach(&list, "c1");
            let mac = Network::observe(&container).link("eth0").expect("the link is there").mac.clone();
            let mut reported = attachment.result.clone().expect("a result");
            let address =
                |reported: &Value| reported["address"].as_str().or(reported["ip"].as_str()).map(str::to_owned);
            let ip = if version < "0.3.0" { reported["ip4"].take() } else { reported["ips"][0].take() };
            assert_eq!(address(&ip).as_deref().map(|text| text.starts_with("10.7.0.")), Some(true), "{version}: {ip}");
            assert_eq!((&ip["gateway"], &reported["cniVersion"]), (&json!("10.7.0.1"), &json!(version)));
            if version >= "0.3.0" {
                let interfaces = json!([{"name": "eth0", "mac": mac, "sandbox": container.path()}]);
                assert_eq!((&reported["interfaces"], &ip["interface"]), (&interfaces, &json!(0)), "{version}");
            }
            machine.runtime(&list).del(&attachment).expect_success();
            container.remove();
        }
    });
}

// The reference drops what the IPAM plugin says.
#[test]
fn name_resolution_is_the_configurations_as_a_whole_or_else_ipams() {
    on_kernels_with(KINDS, |kind| {
        let reported = json!({"nameservers": ["192.0.2.53"], "domain": "ipam"});
        for (own, want) in [(json!(null), reported.clone()), (json!({"domain": "own"}), json!({"domain": "own"}))] {
            let machine = MasterHost::new(kind);
            let ipam = json!({"type": "static", "addresses": [{"address": "10.7.0.2/24"}], "dns": reported});
            let (_, attachment) = machine.attach(&machine.network(&json!({"ipam": ipam, "dns": own})), "c1");
            assert_eq!(attachment.result.expect("attached")["dns"], want);
        }
    });
}

/// Older kernels look for the name beside the master as well.
#[test]
fn a_link_of_the_host_may_have_the_same_name() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        machine.sandbox.sh("ip link add eth0 type bridge");
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let names: Vec<String> = Network::observe(&container).links.into_iter().map(|link| link.name).collect();
        assert_eq!(names, ["lo", "eth0"]);
        machine.runtime(&list).check(&attachment).expect_success();
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(!has_eth0(&container));
        assert!(machine.links().contains(&"eth0".to_owned()), "the host's link is gone");
    });
}

#[test]
fn the_mtu_is_that_of_the_configuration() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({"mtu": 1400}));
        let (container, attachment) = machine.attach(&list, "c1");
        assert_eq!(Network::observe(&container).link("eth0").expect("the link").mtu, 1400);
        machine.runtime(&list).check(&attachment).expect_success();
    });
}

/// A list that names the same plugin as the page of the plugin, on a master of its name.
#[test]
fn the_example_of_the_page_works() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let page =
            std::fs::read_to_string(format!("{}/../plugins/{}/README.md", env!("CARGO_MANIFEST_DIR"), plugin(kind)));
        let page = page.expect("the page of the plugin");
        let list = page::example(&page);
        machine.sandbox.sh(&format!("ip link set {UPLINK} down"));
        machine.sandbox.sh(&format!("ip link set {UPLINK} name eth0"));
        machine.sandbox.sh("ip link set eth0 up");
        let container = machine.sandbox.container("c1");
        let mut attachment = Attachment::new("c1", &container);
        let runtime = Runtime::new(&machine.sandbox, list);
        runtime.add(&mut attachment).expect_success();
        assert_eq!(Network::observe(&container).addresses_of("eth0"), ["192.0.2.200/24"]);
        runtime.check(&attachment).expect_success();
        runtime.del(&attachment).expect_success();
        assert!(!has_eth0(&container));
    });
}
