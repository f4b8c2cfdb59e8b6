//! Which backend ADD takes, and how CHECK and DEL find what it made when that has changed since.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

use cni_conformance::state::assert_same;
use cni_conformance::{Invocation, State, Verb};
use serde_json::{Value, json};

use crate::firewall::firewalld::{DUAL, FirewalldHost, SOURCES, V4, call_newer, firewall, rules};

/// Configurations that leave the choice to the plugin.
fn automatic() -> [Value; 3] {
    [json!({}), json!({"backend": ""}), json!({"backend": null})]
}

#[test]
fn firewalld_is_taken_where_it_runs() {
    let machine = FirewalldHost::with_firewalld();
    for keys in automatic() {
        let client = firewall(&machine, "ctr1", DUAL, &keys);
        client.add();
        assert_eq!(machine.sources("trusted"), SOURCES, "{keys}");
        client.check();
        client.del();
        assert_eq!((machine.sources("trusted").len(), rules(machine.sandbox()).len()), (0, 0), "{keys}");
    }
}

/// The system bus of every distribution is here.
#[test]
fn the_bus_has_a_usual_place() {
    let machine = FirewalldHost::with_system_bus();
    let client = firewall(&machine, "ctr1", V4, &json!({}));
    for variable in [None, Some("")] {
        let call = |verb| match variable {
            None => client.call(verb).without_env("DBUS_SYSTEM_BUS_ADDRESS"),
            Some(value) => client.call(verb).env("DBUS_SYSTEM_BUS_ADDRESS", value),
        };
        call(Verb::Add).run().expect_success();
        assert_eq!(machine.sources("trusted"), SOURCES[..1]);
        call(Verb::Del).run().expect_success();
        assert_eq!(machine.sources("trusted"), [""; 0]);
    }
}

#[test]
fn iptables_is_taken_where_firewalld_does_not_run() {
    for machine in [FirewalldHost::bare, FirewalldHost::with_bare_bus] {
        let machine = machine();
        for keys in automatic() {
            let client = firewall(&machine, "ctr1", DUAL, &keys);
            client.add();
            assert_eq!(rules(machine.sandbox()).len(), 4, "{keys}");
            client.check();
            client.del();
            assert_eq!(rules(machine.sandbox()), [""; 0], "{keys}");
        }
    }
}

#[test]
fn iptables_is_taken_when_it_is_asked_for() {
    let machine = FirewalldHost::with_firewalld();
    let client = firewall(&machine, "ctr1", DUAL, &json!({"backend": "iptables"}));
    client.add();
    assert_eq!((machine.sources("trusted").len(), rules(machine.sandbox()).len()), (0, 4));
    client.check();
    client.del();
    assert_eq!(rules(machine.sandbox()), [""; 0]);
}

#[test]
fn with_iptables_the_bus_is_never_looked_for() {
    let machine = FirewalldHost::bare();
    let listener = UnixListener::bind("/run/conformance/firewalld/bus").expect("listen in the place of a bus");
    listener.set_nonblocking(true).expect("make a listener return");
    let client = firewall(&machine, "ctr1", DUAL, &json!({"backend": "iptables", "ingressPolicy": "isolated"}));
    client.add();
    client.check();
    call_newer(&client, Verb::Status).run().expect_success();
    client.del();
    client.del();
    let network = client.clone().with("cni.dev/valid-attachments", json!([]));
    call_newer(&network, Verb::Gc).run().expect_success();
    let nobody = listener.accept().expect_err("somebody has come");
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
}

/// Go looks for the sources that firewalld never had, and leaves the rules.
#[test]
fn check_and_del_find_rules_that_are_older_than_firewalld() {
    for keys in [json!({}), json!({"backend": "firewalld"})] {
        let machine = FirewalldHost::with_firewalld();
        firewall(&machine, "ctr1", DUAL, &json!({"backend": "iptables"})).add();
        let client = firewall(&machine, "ctr1", DUAL, &keys);
        client.check();
        client.del();
        assert_eq!(rules(machine.sandbox()), [""; 0]);
    }
}

/// firewalld flushes the tables of iptables when it starts.
#[test]
fn a_container_that_lost_its_rules_to_firewalld_is_repaired_by_add() {
    let mut machine = FirewalldHost::with_bare_bus();
    firewall(&machine, "ctr1", DUAL, &json!({})).add();
    machine.start_firewalld();
    let client = firewall(&machine, "ctr1", DUAL, &json!({}));
    client.call(Verb::Check).run().expect_error(100, "expected FORWARD rule");
    client.add();
    client.check();
    assert_eq!(machine.sources("trusted"), SOURCES);
    client.del();
    assert_eq!((machine.sources("trusted").len(), claims(&machine).len()), (0, 0));
}

/// Go looks for rules that iptables never had, which is no failure, but neither is it any use.
#[test]
fn del_removes_sources_whatever_the_backend_is_by_now() {
    for keys in
        [json!({"backend": "iptables"}), json!({"backend": "none"}), json!({"backend": "bogus"}), json!({"backend": 7})]
    {
        let machine = FirewalldHost::with_firewalld();
        let before = State::of_host(machine.sandbox());
        firewall(&machine, "ctr1", DUAL, &json!({})).add();
        let call = firewall(&machine, "ctr1", DUAL, &keys).call(Verb::Del);
        assert_eq!(call.traced(true).run().expect_success().children().len(), 0, "{keys}");
        assert_same(&before, &State::of_host(machine.sandbox()));
    }
}

#[test]
fn del_removes_what_was_added_to_both() {
    let machine = FirewalldHost::with_firewalld();
    firewall(&machine, "ctr1", DUAL, &json!({"backend": "iptables"})).add();
    let client = firewall(&machine, "ctr1", DUAL, &json!({}));
    client.add();
    assert_eq!((machine.sources("trusted").len(), rules(machine.sandbox()).len()), (2, 4));
    client.check();
    client.clone().with("prevResult", json!(null)).del();
    assert_eq!((machine.sources("trusted").len(), rules(machine.sandbox()).len()), (0, 0));
}

#[test]
fn what_stands_in_nf_tables_is_found_beside_firewalld() {
    for (made_by, other) in [("nftables", "firewalld"), ("firewalld", "nftables")] {
        for prev_result in [true, false] {
            let machine = FirewalldHost::with_firewalld();
            let elements = || machine.sandbox().sh("nft list ruleset").matches("elements = {").count();
            let client = firewall(&machine, "ctr1", DUAL, &json!({"backend": made_by}));
            client.add();
            let expected = if made_by == "nftables" { (2, 0) } else { (0, 2) };
            assert_eq!((elements(), machine.sources("trusted").len()), expected);
            let client = client.clone().with("backend", json!(other));
            client.check();
            if prev_result {
                client.del()
            } else {
                client.clone().with("prevResult", json!(null)).del()
            }
            assert_eq!((elements(), machine.sources("trusted").len()), (0, 0), "made by {made_by}");
            assert_eq!(claims(&machine), [""; 0]);
        }
    }
}

/// firewalld forgets its sources when it ends, and it ends with the bus.
#[test]
fn check_fails_when_firewalld_or_the_bus_is_gone() {
    for keys in [json!({}), json!({"backend": "firewalld"})] {
        for machine in those_that_lost_firewalld(&keys) {
            let check = firewall(&machine, "ctr1", DUAL, &keys).call(Verb::Check).run();
            check.expect_error(100, "failed to find the address 10.88.0.5/32 in trusted zone");
        }
    }
}

/// Go fails without a bus.
#[test]
fn del_succeeds_when_firewalld_or_the_bus_is_gone() {
    for keys in [json!({}), json!({"backend": "firewalld"})] {
        for machine in those_that_lost_firewalld(&keys) {
            let client = firewall(&machine, "ctr1", DUAL, &keys);
            client.del();
            assert_eq!(claims(&machine), [""; 0]);
            client.del();
        }
    }
}

/// Machines with a container, on which firewalld has ended alone, or with the bus.
fn those_that_lost_firewalld(keys: &Value) -> impl Iterator<Item = FirewalldHost> {
    [false, true].into_iter().map(|bus_goes| {
        let mut machine = FirewalldHost::with_firewalld();
        firewall(&machine, "ctr1", DUAL, keys).add();
        if bus_goes {
            machine.stop_bus();
            machine.await_end_of_firewalld();
        } else {
            machine.stop_firewalld();
        }
        machine
    })
}

/// What the plugin has written down.
fn claims(machine: &FirewalldHost) -> Vec<String> {
    let state = State::of_host(machine.sandbox());
    state.section("files").iter().filter(|line| line.contains("claims")).cloned().collect()
}

/// So are the containers of the reference, and those whose record was lost.
#[test]
fn sources_that_nobody_wrote_down_are_removed() {
    let machine = FirewalldHost::with_firewalld();
    let before = State::of_host(machine.sandbox());
    for keys in [json!({}), json!({"backend": "firewalld"}), json!({"backend": "nftables"})] {
        for source in SOURCES {
            machine.zone("addSource", &["trusted", source]);
        }
        let call = firewall(&machine, "ctr1", DUAL, &keys).call(Verb::Del);
        assert_eq!(call.traced(true).run().expect_success().children().len(), 0, "{keys}");
        assert_same(&before, &State::of_host(machine.sandbox()));
    }
}

/// Nothing says that iptables has ever been used.
#[test]
fn del_needs_no_program_of_which_there_is_no_trace() {
    for machine in [FirewalldHost::bare, FirewalldHost::with_firewalld] {
        let machine = machine();
        for keys in automatic() {
            without_programs(&firewall(&machine, "ctr1", DUAL, &keys).call(Verb::Del)).run().expect_success();
        }
    }
    let machine = FirewalldHost::with_firewalld();
    let client = firewall(&machine, "ctr1", DUAL, &json!({}));
    for verb in [Verb::Add, Verb::Check, Verb::Del] {
        without_programs(&client.call(verb)).run().expect_success();
    }
}

/// The reference fails there, and leaves them. What is in nf_tables needs no program to go.
#[test]
fn del_removes_rules_whose_programs_are_gone() {
    let machine = FirewalldHost::bare();
    let client = firewall(&machine, "ctr1", V4, &json!({}));
    client.add();
    without_programs(&client.call(Verb::Del)).run().expect_success();
    assert_eq!(rules(machine.sandbox()), [""; 0]);
}

/// The reference fails there.
#[test]
fn a_host_without_firewalld_and_iptables_has_nf_tables() {
    let machine = FirewalldHost::bare();
    for keys in automatic() {
        let client = firewall(&machine, "ctr1", DUAL, &keys);
        let addresses = || {
            let state = State::of_host(machine.sandbox());
            let lines = state.section("nftables").iter();
            lines.filter(|line| line.contains("elements")).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        for verb in [Verb::Add, Verb::Check] {
            let outcome = without_programs(&client.call(verb)).traced(true).run();
            assert_eq!(outcome.expect_success().children().len(), 0, "{keys}");
        }
        assert_eq!(addresses().len(), 2, "{:?}", addresses());
        without_programs(&call_newer(&client, Verb::Status)).run().expect_success();
        let record = machine.sandbox().sh("find /run/cni/.cni-plugins-rs -name claims");
        machine.sandbox().sh(&format!("rm -r {}", record.trim()));
        without_programs(&client.call(Verb::Del)).run().expect_success();
        assert_eq!(addresses(), [""; 0]);
        assert_eq!(rules(machine.sandbox()), [""; 0]);
    }
}

fn without_programs(call: &Invocation) -> Invocation {
    call.clone().env("PATH", "/nonexistent")
}
