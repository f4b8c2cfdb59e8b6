//! What ADD makes, and what it answers in each version.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, ListHost, Network, page};
use serde_json::{Value, json};

use super::setup::{PLUGIN, details, list, traffic_control};

/// The result of the plugins before, and that of the whole list.
fn results(host: &ListHost, attachment: &mut Attachment) -> (Value, Value) {
    let chain = host.runtime().add(attachment);
    (chain.expect_success().step("ptp").result(), chain.result())
}

#[test]
fn the_device_has_the_flags_and_the_mtu_of_the_interface() {
    let host = ListHost::new(list(&json!({})));
    let (container, attachment) = host.add("id1");
    let shown = details(&container, "tap0");
    for word in [
        "type tap",
        " pi on",
        " vnet_hdr on",
        " persist on",
        " user root",
        " group root",
        "mtu 1400",
        "addrgenmode none",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(shown.contains("alias cni:net1:id1:eth0"), "{shown}");
    assert!(Network::observe(&container).link("tap0").expect("tap0").up);
    host.check(&attachment);
}

#[test]
fn the_arguments_name_the_device_and_its_owner() {
    let args = "IgnoreUnknown=1;TC_REDIRECT_TAP_NAME=vm%d;TC_REDIRECT_TAP_UID=64001;TC_REDIRECT_TAP_GID=64002;NOMAD_JOB_ID=a=b";
    for keys in [json!({}), json!({"tapName": "other", "owner": 1, "group": 2})] {
        let host = ListHost::new(list(&keys));
        let container = host.sandbox.container("id1");
        let mut attachment = Attachment::new("id1", &container).args(args);
        host.runtime().add(&mut attachment).expect_success();
        let shown = details(&container, "vm0");
        assert!(shown.contains(" user 64001 group 64002"), "{shown}");
        host.check(&attachment);
    }
    let host = ListHost::new(list(&json!({"tapName": "key0", "owner": 64007, "multiQueue": true, "vnetHdr": false})));
    let (container, _) = host.add("id2");
    let shown = details(&container, "key0");
    assert!(
        shown.contains(" multi_queue ") && shown.contains("vnet_hdr off") && shown.contains("user 64007"),
        "{shown}"
    );
}

/// What was before comes first and unchanged; the guest gets a copy of each address.
#[test]
fn every_version_answers_with_the_device_and_the_guest() {
    for_each(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"].map(|version| (version, version)), |version| {
        let mut list = list(&json!({}));
        list["cniVersion"] = json!(version);
        let host = ListHost::new(list);
        let container = host.sandbox.container("id1");
        let mut attachment = Attachment::new("id1", &container);
        let (before, result) = results(&host, &mut attachment);
        let array = |result: &Value, key: &str| result[key].as_array().expect(key).clone();
        let (earlier, interfaces) = (array(&before, "interfaces"), array(&result, "interfaces"));
        let inside = Network::observe(&container);
        let mac = |name: &str| inside.link(name).expect(name).mac.clone();
        let mut device = json!({"name": "tap0", "mac": mac("tap0"), "sandbox": container.path()});
        if version == "1.1.0" {
            device["mtu"] = json!(1400);
        }
        let guest = json!({"name": "tap0", "mac": mac("eth0"), "sandbox": "id1"});
        assert_eq!(interfaces, [earlier.clone(), vec![device, guest]].concat());
        let (own, ips) = (array(&before, "ips"), array(&result, "ips"));
        let copies = own.iter().map(|ip| cni_conformance::keys::with(ip, &json!({"interface": earlier.len() + 1})));
        assert_eq!(ips, own.iter().cloned().chain(copies).collect::<Vec<_>>());
        for key in ["routes", "dns", "cniVersion"] {
            assert_eq!(result[key], before[key], "{key}");
        }
        host.del(&attachment);
    });
}

#[test]
fn versions_without_lists_of_plugins_are_refused() {
    for version in ["0.1.0", "0.2.0"] {
        let host = ListHost::new(list(&json!({})));
        let container = host.sandbox.container("id1");
        let config = json!({"cniVersion": version, "name": "net1", "type": PLUGIN});
        let call = cni_conformance::Invocation::new(&host.sandbox, PLUGIN, cni_conformance::Verb::Add);
        call.netns(container.path()).config(&config).run().expect_error(1, "incompatible CNI versions");
    }
}

/// The sandbox of the earlier result is another path to the same namespace, and the address names no interface.
#[test]
fn addresses_are_found_by_the_namespace_and_where_they_name_no_interface() {
    for_each(
        [
            (
                "another path",
                json!({"interfaces": [{"name": "eth0", "sandbox": "/run/netns/../netns/id1"}], "ips": [{"interface": 0, "address": "10.1.2.9/24"}]}),
            ),
            ("no interface", json!({"interfaces": [{"name": "lxc1"}], "ips": [{"address": "10.1.2.9/32"}]})),
        ],
        |previous| {
            let host = ListHost::new(list(&json!({})));
            let container = host.sandbox.container("id1");
            container.sh("ip link add eth0 type veth peer name far");
            let attachment = Attachment::new("id1", &container);
            let previous = cni_conformance::keys::with(&previous, &json!({"cniVersion": "1.1.0"}));
            let call = host.runtime().invocation(cni_conformance::Verb::Add, PLUGIN, &attachment, Some(&previous));
            let result = call.run().result();
            assert_eq!(result["ips"].as_array().map(Vec::len), Some(2), "{result:#}");
            assert_eq!(
                result["interfaces"]
                    [result["ips"][1]["interface"].as_u64().map_or(9, |at| usize::try_from(at).unwrap_or(9))]["sandbox"],
                json!("id1")
            );
        },
    );
}

#[test]
fn filters_of_others_stay_before_ours() {
    for (kind, parent) in [("clsact", "ingress"), ("ingress", "parent ffff:")] {
        let host = ListHost::new(list(&json!({})));
        let container = host.sandbox.container("id1");
        container.sh("ip link add eth0 type veth peer name far");
        container.sh(&format!("tc qdisc add dev eth0 {kind}"));
        container
            .sh(&format!("tc filter add dev eth0 {parent} protocol ip prio 7 u32 match ip dst 192.0.2.1 flowid 1:1"));
        let before = traffic_control(&container, "eth0");
        let attachment = Attachment::new("id1", &container);
        let previous =
            json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": container.path()}], "ips": []});
        let call = |verb, result: &Value| host.runtime().invocation(verb, PLUGIN, &attachment, Some(result)).run();
        let result = call(cni_conformance::Verb::Add, &previous).result();
        let after = traffic_control(&container, "eth0");
        assert!(after.iter().any(|line| line.contains("pref 7 u32")), "{after:#?}");
        assert!(after.iter().any(|line| line.contains("Redirect to device tap0")), "{after:#?}");
        call(cni_conformance::Verb::Check, &result).expect_success();
        call(cni_conformance::Verb::Del, &result).expect_success();
        // The kernel shows the place that was named last.
        let shown = |lines: Vec<String>| lines.join("\n").replace("parent ffff: ", "");
        assert_eq!(shown(traffic_control(&container, "eth0")), shown(before));
    }
}

#[test]
fn an_interface_with_a_larger_mtu_than_a_device_can_have_is_redirected() {
    let mut list = list(&json!({}));
    list["plugins"][0]["mtu"] = json!(65535);
    let host = ListHost::new(list);
    let (container, attachment) = host.add("id1");
    assert_eq!(Network::observe(&container).link("tap0").expect("tap0").mtu, 65521);
    host.check(&attachment);
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let host = ListHost::new(page::example(include_str!("../../../plugins/tc-redirect-tap/README.md")));
    let (container, attachment) = host.add("id1");
    let result = attachment.result.as_ref().expect("a result");
    assert!(
        result["interfaces"].as_array().expect("interfaces").iter().any(|one| one["sandbox"] == "id1"),
        "{result:#}"
    );
    host.check(&attachment);
    host.del(&attachment);
    assert!(!has_tap(&container));
}

fn has_tap(container: &cni_conformance::Container) -> bool {
    Network::observe(container).links.iter().any(|link| link.kind.as_deref() == Some("tun"))
}
