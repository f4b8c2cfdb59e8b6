//! The properties that `tc-redirect-tap`, and the monitors that read its result, rely on.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::state::assert_same;
use cni_conformance::traffic::ping;
use cni_conformance::{Attachment, Invocation, PortMapping, Runtime, Spelling, State, Verb};
use serde_json::{Value, json};

use crate::vm::machine::{Machine, TAP, addresses, bridge, guest_config, ipams, list};

const VERSIONS: [&str; 3] = ["0.4.0", "1.0.0", "1.1.0"];

fn rows() -> impl Iterator<Item = (String, (Value, &'static str))> {
    ipams()
        .into_iter()
        .flat_map(|(name, ipam)| VERSIONS.map(|version| (format!("{name}, {version}"), (ipam.clone(), version))))
}

/// Runs ADD of the bridge plugin alone.
#[track_caller]
fn attached(machine: &Machine, list: &Value, attachment: &Attachment) -> Value {
    Runtime::new(&machine.sandbox, list.clone()).invocation(Verb::Add, "bridge", attachment, None).run().result()
}

/// The namespace is compared as text, so another spelling of the same path would give the guest no address.
#[test]
fn the_address_is_found_by_the_name_and_the_namespace_as_given() {
    for_each(rows(), |(ipam, version)| {
        for path in ["/run/netns/c1", "/run/netns/../netns/c1", "//run/netns/./c1"] {
            let machine = Machine::new();
            let attachment = machine.attachment().netns(path);
            let result = attached(&machine, &list(version, json!([bridge(&ipam)])), &attachment);
            assert_eq!(addresses(&attachment, &result).len(), 1, "{result:#}");
            assert_eq!(result["ips"].as_array().map(Vec::len), Some(1), "{result:#}");
        }
    });
}

#[test]
fn the_result_has_the_mac_and_mtu_of_the_link_and_there_is_no_filter() {
    for_each(rows(), |(ipam, version)| {
        let machine = Machine::new();
        let config = with(&bridge(&ipam), &json!({"mtu": 1400}));
        let attachment = machine.attachment();
        let result = attached(&machine, &list(version, json!([config])), &attachment);
        let link = machine.link("eth0");
        let reported = result["interfaces"]
            .as_array()
            .expect("interfaces")
            .iter()
            .find(|one| one["name"] == "eth0")
            .expect("eth0");
        assert_eq!((reported["mac"].as_str(), link.mtu), (Some(link.mac.as_str()), 1400), "{reported}");
        assert!(reported["mtu"].is_null() || reported["mtu"] == json!(link.mtu), "{reported}");
        let disciplines = machine.container.sh("tc qdisc show dev eth0");
        assert!(!disciplines.contains("ingress") && !disciplines.contains("clsact"), "{disciplines}");
        machine.redirect(version, &attachment, &result);
    });
}

/// The `prevResult` has two interfaces of one name, one of them in no namespace, and the address twice.
#[test]
fn check_compares_only_the_entries_of_its_own_interface() {
    for_each(rows(), |(ipam, version)| {
        let machine = Machine::new();
        let plugins = json!([
            bridge(&ipam), {"type": TAP}, {"type": "firewall", "backend": "iptables"},
            {"type": "portmap", "capabilities": {"portMappings": true}}, {"type": "tuning", "mtu": 1400},
        ]);
        let list = list(version, plugins);
        let mut attachment = machine.attachment().ports(&PortMapping::twins(8080, 80), Spelling::Go);
        machine.add(&list, &mut attachment);
        machine.check(&list, &attachment);
        let check = |kind| {
            Runtime::new(&machine.sandbox, list.clone())
                .invocation(Verb::Check, kind, &attachment, attachment.result.as_ref())
                .run()
        };
        machine.container.sh("ip addr flush dev eth0");
        check("bridge").expect_error(100, "10.88.0.2");
        machine.sandbox.sh("iptables -D CNI-FORWARD -s 10.88.0.2/32 -j ACCEPT");
        check("firewall").expect_error(100, "10.88.0.2");
    });
}

/// The monitor's library calls DEL before ADD, in a namespace that may be empty or missing, and gives up if DEL fails.
#[test]
fn del_before_the_first_add_succeeds() {
    for_each(rows(), |(ipam, version)| {
        let machine = Machine::new();
        let plugins = json!([
            bridge(&ipam), {"type": "firewall"}, {"type": "portmap", "capabilities": {"portMappings": true}}, {"type": "tuning"},
        ]);
        let list = list(version, plugins);
        let before = State::capture(&machine.sandbox, &[&machine.container]).without("files");
        for path in [machine.container.path(), "/run/netns/not-there", ""] {
            machine.del(&list, &machine.attachment().netns(path));
        }
        assert_same(&before, &State::capture(&machine.sandbox, &[&machine.container]).without("files"));
        machine.add(&list_with_tap(&list), &mut machine.attachment());
    });
}

fn list_with_tap(list: &Value) -> Value {
    let mut list = list.clone();
    list["plugins"].as_array_mut().expect("plugins").push(json!({"type": TAP}));
    list
}

/// The result has the address twice, once for the guest.
#[test]
fn each_rule_is_made_once() {
    for_each(rows(), |(ipam, version)| {
        let rules = |tap: Option<Value>| {
            let machine = Machine::new();
            let last = [
                json!({"type": "firewall", "backend": "iptables"}),
                json!({"type": "portmap", "capabilities": {"portMappings": true}}),
            ];
            let plugins: Value = [bridge(&ipam)].into_iter().chain(tap.clone()).chain(last).collect();
            let list = list(version, plugins);
            let mut attachment = machine.attachment().ports(&PortMapping::twins(8080, 80), Spelling::Go);
            if tap.is_some() {
                machine.add(&list, &mut attachment);
            } else {
                Runtime::new(&machine.sandbox, list).add(&mut attachment).expect_success();
            }
            let state = State::of_host(&machine.sandbox);
            [state.section("iptables nat"), state.section("iptables filter")].concat()
        };
        let with_tap = rules(Some(json!({"type": TAP})));
        assert_eq!(with_tap, rules(None));
        assert_eq!(with_tap.iter().filter(|rule| rule.contains("--dport 8080 -j DNAT")).count(), 2, "{with_tap:#?}");
        assert_eq!(
            with_tap.iter().filter(|rule| rule.starts_with("-A CNI-FORWARD -s 10.88.0.2/32")).count(),
            1,
            "{with_tap:#?}"
        );
    });
}

/// A guest cannot fall back to the host's resolver, and without a gateway it gets the text `<nil>`.
#[test]
fn the_guest_gets_gateway_routes_and_dns() {
    for_each(rows(), |(ipam, version)| {
        let machine = Machine::new();
        std::fs::write("/run/resolv.conf", "nameserver 192.0.2.53\nsearch example.org\n").expect("write a resolv.conf");
        let routes = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.88.0.9"}]);
        let of_ipam = match ipam["type"].as_str() {
            // No plugin knows the second key.
            Some("host-local") => {
                json!({"resolvConf": "/run/resolv.conf", "resolv_conf": "/nowhere", "routes": routes})
            }
            _ => json!({"dns": {"nameservers": ["192.0.2.53"], "search": ["example.org"]}, "routes": routes}),
        };
        let list = list(version, json!([bridge(&with(&ipam, &of_ipam)), {"type": TAP}, {"type": "firewall"}]));
        let result = machine.add(&list, &mut machine.attachment());
        assert_eq!(guest_config(&result).gateway.to_string(), "10.88.0.1");
        assert_eq!(result["dns"], json!({"nameservers": ["192.0.2.53"], "search": ["example.org"]}), "{result:#}");
        assert_eq!(result["routes"], routes, "{result:#}");
    });
}

#[test]
fn the_spoof_check_lets_the_guest_pass_and_no_other_address() {
    for_each(rows(), |(ipam, version)| {
        let machine = Machine::new();
        let config = with(&bridge(&ipam), &json!({"macspoofchk": true}));
        let list = list(version, json!([config, {"type": TAP}]));
        let mut attachment = machine.attachment();
        let result = machine.add(&list, &mut attachment);
        let gateway = guest_config(&result).gateway;
        assert!(ping(&machine.guest, gateway, Duration::from_secs(20)), "the guest has the link's address");
        machine.check(&list, &attachment);
        machine.guest.sh("ip link set eth0 address 02:00:00:00:00:66");
        assert!(!ping(&machine.guest, gateway, Duration::from_millis(500)), "another address passes");
    });
}

/// Jobs set `TC_REDIRECT_TAP_NAME` and others; Nomad sends `IgnoreUnknown` with them.
#[test]
fn arguments_for_the_tap_need_ignore_unknown() {
    for_each(rows(), |(ipam, version)| {
        let machine = Machine::new();
        let config = with(&bridge(&ipam), &json!({"cniVersion": version, "name": "fcnet"}));
        let call = |args: &str| {
            Invocation::new(&machine.sandbox, "bridge", Verb::Add)
                .netns(machine.container.path())
                .config(&config)
                .args(args)
                .run()
        };
        let args = "TC_REDIRECT_TAP_NAME=tap7;TC_REDIRECT_TAP_UID=1000;TC_REDIRECT_TAP_GID=1000";
        call(args).expect_error(4, "ARGS: unknown args [\"TC_REDIRECT_TAP_NAME=tap7\"");
        call(&format!("{args};IgnoreUnknown=1")).expect_success();
    });
}
