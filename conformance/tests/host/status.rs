//! STATUS says whether ADD could work, changes nothing, and costs little.
//!
//! The reference's firewall and portmap succeed whatever the host lacks, and its host-local has no STATUS.

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::state::assert_same;
use cni_conformance::{Attachment, Flavour, Invocation, Nomad, Outcome, Runtime, Sandbox, State, Verb};
use serde_json::{Value, json};

fn nomad() -> Nomad {
    Nomad::version("1.1.0").dual_stack()
}

/// Prepares STATUS of one plugin of Nomad's list, with these keys more.
fn status(sandbox: &Sandbox, kind: &str, keys: Value) -> Invocation {
    let list = nomad().conflist();
    let plugin = list["plugins"].as_array().expect("plugins").iter().find(|plugin| plugin["type"] == kind);
    let plugin = plugin.expect("a plugin of the list");
    let config = with(plugin, &json!({"cniVersion": list["cniVersion"], "name": list["name"]}));
    Invocation::new(sandbox, kind, Verb::Status).config(&with(&config, &keys))
}

#[track_caller]
fn assert_silent(outcome: &Outcome) {
    outcome.expect_success();
    assert_eq!((outcome.stdout(), outcome.stderr()), ("", ""), "{outcome}");
}

#[test]
fn a_host_that_has_everything_is_ready_and_stays_as_it_is() {
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        let before = State::of_host(&sandbox);
        for kind in ["loopback", "bridge", "firewall", "portmap"] {
            assert_silent(&status(&sandbox, kind, json!({})).run());
        }
        assert_same(&before, &State::of_host(&sandbox));
    }
}

#[test]
fn firewall_and_portmap_start_one_process() {
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, nomad().conflist());
    runtime.add(&mut Attachment::new("c", &sandbox.container("c"))).expect_success();
    for (kind, most) in [("loopback", 0), ("firewall", 1), ("portmap", 1)] {
        let outcome = status(&sandbox, kind, json!({})).traced(true).run();
        assert_silent(&outcome);
        assert!(outcome.children().len() <= most, "{kind}: {:?}", outcome.children());
    }
}

#[test]
fn without_iptables_firewall_and_portmap_are_not_available() {
    let sandbox = Sandbox::new();
    for (kind, table) in [("firewall", "filter"), ("portmap", "nat")] {
        let asked = status(&sandbox, kind, json!({"backend": "iptables"}));
        let error = asked.env("PATH", "/nowhere").run().expect_error(50, "iptables");
        assert_eq!(error.msg, format!("table {table} of iptables is not available"));
        assert!(error.details.contains("PATH=/nowhere"), "{error:?}");
    }
    // Left to itself, portmap then uses nf_tables.
    assert_silent(&status(&sandbox, "portmap", json!({})).env("PATH", "/nowhere").run());
}

/// As on a host whose kernel lacks the table.
#[test]
fn where_iptables_fails_firewall_and_portmap_are_not_available() {
    let sandbox = Sandbox::new();
    sandbox.sh("cp /bin/false /run/conformance/bin/broken");
    for program in ["iptables", "iptables-restore"] {
        sandbox.sh(&format!("mv -f /run/conformance/bin/broken /run/conformance/bin/{program}"));
        sandbox.sh("cp /bin/false /run/conformance/bin/broken");
    }
    for kind in ["firewall", "portmap"] {
        status(&sandbox, kind, json!({"backend": "iptables"})).run().expect_error(50, "iptables");
    }
}

/// What ADD refuses, STATUS does not call ready.
#[test]
fn a_configuration_that_add_refuses_is_refused() {
    let sandbox = Sandbox::new();
    for_each(
        [
            ("firewall", json!({"ingressPolicy": "bogus"}), "unknown ingress policy"),
            ("portmap", json!({"markMasqBit": 32}), "MasqMarkBit must be between 0 and 31"),
            ("portmap", json!({"conditionsV4": [""]}), "conditionsV4"),
        ]
        .map(|row| (row.2.to_owned(), row)),
        |(kind, keys, text)| drop(status(&sandbox, kind, keys).run().expect_error(7, text)),
    );
}

/// SPEC section "STATUS": a plugin that delegates passes the question on.
#[test]
fn bridge_asks_its_ipam_plugin() {
    let sandbox = Sandbox::new();
    let mut list = nomad().conflist();
    list["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "172.26.64.0/30"}]]);
    let runtime = Runtime::new(&sandbox, list);
    runtime.status().expect_success();
    runtime.add(&mut Attachment::new("c", &sandbox.container("c"))).expect_success();
    let before = State::of_host(&sandbox);
    runtime.status().expect_success();
    assert_same(&before, &State::of_host(&sandbox));
    let ipam = json!({"ipam": {"type": "no-such-plugin"}});
    status(&sandbox, "bridge", ipam).run().error();
    status(&sandbox, "bridge", json!({"ipam": {}})).run().expect_success();
}
