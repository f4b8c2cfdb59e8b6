//! Values that the configuration refuses, before anything is done.
//!
//! Each error names the key and the value in `msg` or `details`. DEL ignores such values, and removes what exists.

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Sandbox, State, Verb};
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, V6, layer_two, network, with};

/// Keys, code, and the words of the error.
type Refusal = (Value, u64, &'static [&'static str]);

fn refusals() -> Vec<(&'static str, Refusal)> {
    vec![
        ("bridge empty", (json!({"bridge": ""}), 7, &["bridge", "\"\""])),
        ("bridge of 16 bytes", (json!({"bridge": "a-bridge-of-16-b"}), 7, &["bridge", "a-bridge-of-16-b"])),
        ("bridge with a slash", (json!({"bridge": "a/b"}), 7, &["bridge", "a/b"])),
        ("bridge with a blank", (json!({"bridge": "a b"}), 7, &["bridge", "a b"])),
        ("bridge with a colon", (json!({"bridge": "a:b"}), 7, &["bridge", "a:b"])),
        ("bridge .", (json!({"bridge": "."}), 7, &["bridge", "\".\""])),
        ("bridge ..", (json!({"bridge": ".."}), 7, &["bridge", "\"..\""])),
        ("bridge with a pattern", (json!({"bridge": "br%d"}), 7, &["bridge", "br%d"])),
        ("mtu above all", (json!({"mtu": 65_536}), 7, &["mtu", "65536"])),
        ("mtu far above", (json!({"mtu": 9_223_372_036_854_775_807_i64}), 7, &["mtu", "9223372036854775807"])),
        ("ipMasqBackend unknown", (json!({"ipMasqBackend": "foo"}), 7, &["ipmasq backend", "\"foo\""])),
        ("ipMasqBackend empty", (json!({"ipMasqBackend": ""}), 7, &["ipmasq backend", "\"\""])),
        ("ipMasqBackend in capitals", (json!({"ipMasqBackend": "IPTables"}), 7, &["ipmasq backend", "\"IPTables\""])),
        ("hairpin and promisc", (json!({"hairpinMode": true, "promiscMode": true}), 7, &["hairpin", "promisc"])),
        (
            "no interface with ipam",
            (json!({"disableContainerInterface": true}), 7, &["IPAM", "DisableContainerInterface"]),
        ),
        ("runtimeConfig.mac", (json!({"runtimeConfig": {"mac": "zz"}}), 7, &["runtimeConfig.mac", "zz"])),
        ("args.cni.mac", (json!({"args": {"cni": {"mac": "zz"}}}), 7, &["args.cni.mac", "zz"])),
    ]
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_key_before_anything_is_done() {
    for_each(refusals(), |(keys, code, says)| {
        let sandbox = Sandbox::new();
        let port =
            Port::new(&sandbox, "id1", with(&network(&[V4, V6], json!({"isGateway": true, "ipMasq": true})), &keys));
        port.refused_at_once(code, says);
    });
}

/// A key that went wrong since must not keep a container's things alive.
#[test]
fn del_cleans_up_under_a_configuration_that_add_would_refuse() {
    for_each(refusals(), |(keys, _, _)| {
        let sandbox = Sandbox::new();
        let before = State::of_host(&sandbox);
        let good = network(&[V4, V6], json!({"isGateway": true, "ipMasq": true}));
        let mut port = Port::new(&sandbox, "id1", good.clone());
        port.add();
        port.config = with(&good, &keys);
        port.del();
        port.config = good;
        port.shared().assert_nothing_else(&before, || State::of_host(&sandbox));
    });
}

/// Also when the bridge is there, with a container that must not notice.
#[test]
fn a_refusal_does_not_disturb_a_container_that_runs() {
    let sandbox = Sandbox::new();
    let good = network(&[V4, V6], json!({"isGateway": true, "ipMasq": true}));
    let neighbour = Port::new(&sandbox, "id0", good.clone());
    let result = neighbour.add();
    let numbered = refusals().into_iter().enumerate().map(|(number, (name, refusal))| (name, (number, refusal)));
    for_each(numbered, |(number, (keys, code, says))| {
        let port = Port::new(&sandbox, &format!("refused{number}"), with(&good, &keys));
        let before = State::capture(&sandbox, &[&neighbour.container]);
        port.says_no(code, says);
        assert_same(&before, &State::capture(&sandbox, &[&neighbour.container]));
    });
    neighbour.check(&result);
}

/// The kernel would number them (`br0`, `eth1`), and what it made under another name would never be found
/// again.
#[test]
fn a_name_with_a_pattern_of_the_kernel_makes_no_link() {
    let sandbox = Sandbox::new();
    for (bridge, ifname) in [("br%d", "eth0"), ("br0", "eth%d")] {
        let port = Port::new(&sandbox, &ifname.replace('%', ""), layer_two(json!({"bridge": bridge})));
        let before = port.state();
        let error = port.call(Verb::Add).ifname(ifname).run().error();
        let pattern = if bridge.contains('%') { bridge } else { ifname };
        assert!(format!("{} {}", error.msg, error.details).contains(pattern), "{error:?}");
        assert_same(&before, &port.state());
    }
}
