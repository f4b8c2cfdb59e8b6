//! What ADD makes, keeps and answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use cni_conformance::traffic::ping_until_answered;
use cni_conformance::{Attachment, ListHost, Network, Runtime, keys, page};
use serde_json::json;

use crate::flannel::setup::{DUAL, LEASE, composed, file, files, foreign, given, host, host_with, write_lease};

#[test]
fn a_container_gets_an_address_of_the_lease_from_the_bridge_plugin() {
    let host = host();
    let (container, attachment) = host.add("c1");
    let result = attachment.result.expect("a result");
    assert_eq!(result["ips"][0]["address"], "10.42.1.2/24");
    assert_eq!(result["routes"], json!([{"dst": "10.42.0.0/16"}, {"dst": "0.0.0.0/0", "gw": "10.42.1.1"}]));
    let interfaces: Vec<_> =
        result["interfaces"].as_array().expect("interfaces").iter().map(|one| &one["name"]).collect();
    assert_eq!((interfaces.len(), interfaces[0], interfaces[2]), (3, &json!("cni0"), &json!("eth0")));
    assert!(container.sh("ip link show eth0").contains("mtu 1450"));
    ping_until_answered(&container, "10.42.1.1".parse().expect("an address"), Duration::from_secs(20));
}

#[test]
fn the_state_file_is_the_references_to_the_byte() {
    let host = host();
    host.add("c1");
    assert_eq!(files(), ["c1"]);
    assert_eq!(fs::read_to_string(file("c1")).expect("a state file"), composed("1.1.0"));
    let mode = |path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!((mode(file("c1")), mode(file(""))), (0o600, 0o700));
}

#[test]
fn both_families_are_given_and_their_gateways_answer() {
    let host = host_with(DUAL, &json!({}));
    let (container, attachment) = host.add("c1");
    assert_eq!(attachment.result.expect("a result")["ips"].as_array().expect("addresses").len(), 2);
    for gateway in ["10.42.1.1", "fd00:42:0:1::1"] {
        ping_until_answered(&container, gateway.parse().expect("an address"), Duration::from_secs(20));
    }
}

/// flanneld says whether it masquerades itself.
#[test]
fn the_bridge_masquerades_if_flanneld_does_not() {
    for (says, rules) in [("true", 0), ("false", 1)] {
        let host = host_with(&LEASE.replace("IPMASQ=true", &format!("IPMASQ={says}")), &json!({}));
        host.add("c1");
        let jumps = host.sandbox.sh("iptables -t nat -S POSTROUTING").matches("-s 10.42.1.2/32").count();
        assert_eq!(jumps, rules, "FLANNEL_IPMASQ={says}");
    }
}

#[test]
fn the_delegate_and_its_ipam_plugin_run_inside_the_process() {
    let host = host();
    host.add("first");
    let runtime = host.runtime().traced();
    let container = host.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    let add = runtime.add(&mut attachment);
    add.expect_success();
    for chain in [add, runtime.check(&attachment), runtime.del(&attachment)] {
        assert_eq!(chain.children(), [""; 0]);
        chain.expect_success();
    }
}

#[test]
fn nothing_is_printed_beside_the_result() {
    let host = host();
    let container = host.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    let runtime = host.runtime();
    let add = runtime.add(&mut attachment);
    for chain in
        [add, runtime.check(&attachment), runtime.status(), runtime.gc(&[&attachment]), runtime.del(&attachment)]
    {
        chain.expect_success();
        assert_eq!(chain.step("flannel").stderr(), "", "{chain}");
    }
}

/// It is called with the composed configuration and nothing else, and its result is passed on.
#[test]
fn a_delegate_of_another_project_is_started() {
    let answer = r#"{"cniVersion": "1.1.0", "ips": [{"address": "192.0.2.5/24"}], "dns": {"domain": "d"}}"#;
    let mut host = host();
    host.list["plugins"][0] = json!({
        "type": "flannel", "delegate": {"type": "foreign", "x": {"b": 1, "a": null}}, "capabilities": {"ips": true},
        "dns": {"domain": "not handed on"},
    });
    let folder = foreign(&format!("[ $CNI_COMMAND = ADD ] && echo '{answer}'; exit 0\n"));
    let container = host.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    attachment.capabilities.insert("ips".to_owned(), json!(["10.42.1.9/24"]));
    let runtime = Runtime::new(&host.sandbox, host.list.clone()).binaries(&folder);
    let result = runtime.add(&mut attachment).result();
    assert_eq!((&result["ips"][0]["address"], &result["dns"]["domain"]), (&json!("192.0.2.5/24"), &json!("d")));
    assert_eq!(
        given("ADD"),
        json!({
            "cniVersion": "1.1.0", "name": "net1", "type": "foreign", "mtu": 1450, "ipMasq": false, "x": {"a": null, "b": 1},
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.1.0/24"}]], "routes": [{"dst": "10.42.0.0/16"}]},
            "runtimeConfig": {"ips": ["10.42.1.9/24"]},
        })
    );
    runtime.del(&attachment).expect_success();
    assert_eq!(given("DEL"), given("ADD"));
}

/// k3s, on a host that has all its plugins.
#[test]
fn the_example_of_the_page_does_what_it_says() {
    let list = page::example(include_str!("../../../plugins/flannel/README.md"));
    let host = ListHost::new(list);
    write_lease(LEASE);
    let (container, attachment) = host.add("c1");
    host.check(&attachment);
    assert_eq!(Network::observe(&container).addresses_of("eth0")[0], "10.42.1.2/24");
    host.del(&attachment);
    assert!(Network::observe(&container).link("eth0").is_none());
}

/// A host that was given another lease: the bridge gets the new gateway, if `forceAddress` says so.
#[test]
fn a_new_lease_gives_the_bridge_another_address() {
    let mut host = host();
    host.add("old");
    write_lease(&LEASE.replace("10.42.1.1", "10.42.7.1"));
    let (container, attachment) = host.add("new");
    assert_eq!(attachment.result.expect("a result")["ips"][0]["address"], "10.42.7.2/24");
    ping_until_answered(&container, "10.42.7.1".parse().expect("an address"), Duration::from_secs(20));
    keys::set(&mut host.list["plugins"][0]["delegate"], &json!({"forceAddress": false}));
    write_lease(&LEASE.replace("10.42.1.1", "10.42.8.1"));
    let refused = host.try_to_add("refused");
    let error = refused.step("flannel").error();
    assert!(error.msg.contains("cni0") && error.msg.contains("address"), "{refused}");
    assert!(!files().contains(&"refused".to_owned()));
}
