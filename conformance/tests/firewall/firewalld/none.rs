//! `backend: none`: somebody else keeps the filter, and the plugin keeps out of it.

use cni_conformance::state::assert_same;
use cni_conformance::{State, Verb};
use serde_json::json;

use crate::firewall::firewalld::{DUAL, FirewalldHost, call_newer, firewall};

#[test]
fn nothing_is_made_and_nothing_is_missing() {
    let machine = FirewalldHost::with_firewalld();
    let before = State::of_host(machine.sandbox());
    let client = firewall(&machine, "ctr1", DUAL, &json!({"backend": "none", "ingressPolicy": "open"}));
    assert_eq!(client.add(), client.config["prevResult"]);
    client.check();
    call_newer(&client, Verb::Status).run().expect_success();
    client.del();
    assert_same(&before, &State::of_host(machine.sandbox()));
    for verb in [Verb::Add, Verb::Check, Verb::Del] {
        let outcome = client.call(verb).env("PATH", "/nonexistent").traced(true).run();
        assert_eq!(outcome.expect_success().children().len(), 0, "{verb}");
    }
}

#[test]
fn a_policy_is_refused() {
    let machine = FirewalldHost::bare();
    for policy in ["same-bridge", "isolated"] {
        let client = firewall(&machine, "ctr1", DUAL, &json!({"backend": "none", "ingressPolicy": policy}));
        client.call(Verb::Add).run().expect_error(7, &format!("ingressPolicy {policy:?}"));
        client.call(Verb::Check).run().expect_error(7, &format!("ingressPolicy {policy:?}"));
        client.del();
    }
}
