//! What firewalld refuses, and what is refused before it is asked.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use cni_conformance::state::assert_same;
use cni_conformance::{State, Verb};
use serde_json::json;

use crate::firewall::firewalld::{DUAL, FirewalldHost, V4, call_newer, firewall};

/// Go leaves the sources that it has added before.
#[test]
fn an_address_that_another_zone_has_fails_add_and_nothing_is_left() {
    let machine = FirewalldHost::with_firewalld();
    machine.zone("addSource", &["public", "fd00:88::5/128"]);
    let before = State::of_host(machine.sandbox());
    let client = firewall(&machine, "ctr1", DUAL, &json!({"ingressPolicy": "isolated"}));
    let error = client.call(Verb::Add).run().expect_error(103, "ZONE_CONFLICT");
    let text =
        "failed to add the address fd00:88::5/128 to trusted zone: ZONE_CONFLICT: 'fd00:88::5/128' already bound";
    assert!(error.msg.starts_with(text), "{error:?}");
    assert_same(&before, &State::of_host(machine.sandbox()));
    client.del();
    assert_eq!(machine.sources("public"), ["fd00:88::5/128"]);
}

/// Go has the source in the zone by then.
#[test]
fn a_policy_that_fails_takes_the_sources_back() {
    let machine = FirewalldHost::with_firewalld();
    let before = State::of_host(machine.sandbox());
    let client = firewall(&machine, "ctr1", DUAL, &json!({"ingressPolicy": "isolated"}));
    client.call(Verb::Add).env("PATH", "/nonexistent").run().expect_error(104, "iptables");
    assert_same(&before, &State::of_host(machine.sandbox()));
    client.clone().with("ingressPolicy", json!("bogus")).call(Verb::Add).run().expect_error(7, "bogus");
    assert_same(&before, &State::of_host(machine.sandbox()));
}

#[test]
fn a_zone_that_firewalld_does_not_know_is_refused() {
    let machine = FirewalldHost::with_firewalld();
    let before = State::of_host(machine.sandbox());
    let client = firewall(&machine, "ctr1", DUAL, &json!({"firewalldZone": "nope"}));
    let error = client.call(Verb::Add).run().expect_error(7, "INVALID_ZONE");
    assert_eq!(error.msg, "failed to add the address 10.88.0.5/32 to nope zone: INVALID_ZONE: nope");
    let text = "failed to find the address 10.88.0.5/32 in nope zone";
    client.call(Verb::Check).run().expect_error(7, text);
    client.del();
    let odd = client.clone().with("firewalldZone", json!("a b"));
    odd.call(Verb::Add).run().expect_error(7, "invalid firewalldZone \"a b\"");
    odd.del();
    assert_same(&before, &State::of_host(machine.sandbox()));
}

#[test]
fn firewalld_that_is_asked_for_must_be_there() {
    let absent = "cannot connect to D-Bus at /run/conformance/firewalld/bus";
    let stopped = "The name org.fedoraproject.FirewallD1 was not provided by any .service files";
    type Make = fn() -> FirewalldHost;
    let rows: [(Make, &str); 2] = [(FirewalldHost::bare, absent), (FirewalldHost::with_bare_bus, stopped)];
    for (machine, text) in rows {
        let machine = machine();
        let before = State::of_host(machine.sandbox());
        let client = firewall(&machine, "ctr1", V4, &json!({"backend": "firewalld"}));
        let error = client.call(Verb::Add).run().expect_error(104, text);
        assert!(error.msg.starts_with("failed to add the address 10.88.0.5/32 to trusted zone"), "{error:?}");
        client.call(Verb::Check).run().expect_error(100, "failed to find the address 10.88.0.5/32 in trusted zone");
        client.del();
        assert_same(&before, &State::of_host(machine.sandbox()));
    }
}

/// Go waits for ever.
#[test]
fn a_bus_that_does_not_answer_is_given_up() {
    let machine = FirewalldHost::bare();
    let before = State::of_host(machine.sandbox());
    let _silent = UnixListener::bind("/run/conformance/firewalld/bus").expect("listen in the place of a bus");
    let client = firewall(&machine, "ctr1", V4, &json!({"backend": "firewalld"}));
    let call = client.call(Verb::Add).deadline(Duration::from_secs(20));
    let error = call.run().expect_error(11, "did not answer within 10s");
    assert_eq!(error.msg, "failed to add the address 10.88.0.5/32 to trusted zone");
    assert_same(&before, &State::of_host(machine.sandbox()));
}

/// As for the reference: a list with such a word works with both.
#[test]
fn an_unknown_backend_means_the_default_with_a_warning() {
    for backend in ["ip6tables", "IPTables", "firewalld "] {
        let machine = FirewalldHost::with_firewalld();
        let before = State::of_host(machine.sandbox());
        let client = firewall(&machine, "ctr1", DUAL, &json!({})).with("backend", json!(backend));
        let added = client.call(Verb::Add).run();
        added.expect_success();
        assert!(added.stderr().contains(&format!("unknown backend: {backend:?}")), "{added}");
        let default = firewall(&machine, "ctr1", DUAL, &json!({"backend": "firewalld"}));
        for call in [client.call(Verb::Check), default.call(Verb::Check), call_newer(&client, Verb::Status)] {
            call.run().expect_success();
        }
        client.del();
        assert_same(&before, &State::of_host(machine.sandbox()));
    }
}
