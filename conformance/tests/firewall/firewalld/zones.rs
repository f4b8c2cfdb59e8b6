//! ADD, CHECK, DEL, GC and STATUS with firewalld running.

use cni_conformance::state::assert_same;
use cni_conformance::{State, Verb};
use serde_json::json;

use crate::firewall::firewalld::{DUAL, FirewalldHost, SOURCES, V4, call_newer, firewall, rules};

#[test]
fn an_attachment_is_a_source_of_the_zone_for_as_long_as_it_lives() {
    for (addresses, count) in [(V4, 1), (DUAL, 2)] {
        let machine = FirewalldHost::with_firewalld();
        let before = State::of_host(machine.sandbox());
        let client = firewall(&machine, "ctr1", addresses, &json!({}));
        assert_eq!(client.add(), client.config["prevResult"]);
        assert_eq!(machine.sources("trusted"), SOURCES[..count]);
        assert_eq!(rules(machine.sandbox()), [""; 0]);
        client.check();
        client.del();
        assert_same(&before, &State::of_host(machine.sandbox()));
        client.del();
    }
}

#[test]
fn no_process_is_started() {
    let machine = FirewalldHost::with_firewalld();
    let client = firewall(&machine, "ctr1", DUAL, &json!({"backend": "firewalld"}));
    for verb in [Verb::Add, Verb::Check, Verb::Del] {
        let outcome = client.call(verb).traced(true).run();
        assert_eq!(outcome.expect_success().children().len(), 0, "{verb}");
    }
}

#[test]
fn another_zone_may_be_named() {
    let machine = FirewalldHost::with_firewalld();
    let client = firewall(&machine, "ctr1", DUAL, &json!({"backend": "firewalld", "firewalldZone": "internal"}));
    client.add();
    assert_eq!(machine.sources("internal"), SOURCES);
    assert_eq!(machine.sources("trusted"), [""; 0]);
    client.check();
    client.del();
    assert_eq!(machine.sources("internal"), [""; 0]);
}

#[test]
fn a_repeated_add_changes_nothing() {
    let machine = FirewalldHost::with_firewalld();
    let client = firewall(&machine, "ctr1", DUAL, &json!({}));
    client.add();
    let before = State::of_host(machine.sandbox());
    client.add();
    assert_same(&before, &State::of_host(machine.sandbox()));
    client.del();
    assert_eq!(machine.sources("trusted"), [""; 0]);
}

/// The reference asks, and takes any answer.
#[test]
fn check_fails_when_firewalld_has_lost_a_source() {
    let machine = FirewalldHost::with_firewalld();
    let client = firewall(&machine, "ctr1", DUAL, &json!({}));
    client.add();
    for source in SOURCES {
        machine.zone("removeSource", &["trusted", source]);
        let text = format!("failed to find the address {source} in trusted zone");
        let before = State::of_host(machine.sandbox());
        client.call(Verb::Check).run().expect_error(100, &text);
        assert_same(&before, &State::of_host(machine.sandbox()));
        machine.zone("addSource", &["trusted", source]);
    }
    client.check();
}

/// A reload removes what is not permanent; ADD restores it.
#[test]
fn check_fails_after_firewalld_has_started_again() {
    let mut machine = FirewalldHost::with_firewalld();
    firewall(&machine, "ctr1", V4, &json!({})).add();
    machine.stop_firewalld();
    machine.start_firewalld();
    let client = firewall(&machine, "ctr1", V4, &json!({}));
    client.call(Verb::Check).run().expect_error(100, "failed to find the address 10.88.0.5/32 in trusted zone");
    client.add();
    client.check();
}

/// Go removes whatever the address is by now.
#[test]
fn a_late_del_leaves_the_new_owner_of_the_address_alone() {
    let machine = FirewalldHost::with_firewalld();
    let old = firewall(&machine, "old", DUAL, &json!({}));
    let new = firewall(&machine, "new", DUAL, &json!({}));
    old.add();
    new.add();
    old.del();
    old.clone().with("prevResult", json!(null)).del();
    new.check();
    assert_eq!(machine.sources("trusted"), SOURCES);
    new.del();
    assert_eq!(machine.sources("trusted"), [""; 0]);
}

/// Go leaves the sources.
#[test]
fn del_needs_no_prev_result() {
    let machine = FirewalldHost::with_firewalld();
    let before = State::of_host(machine.sandbox());
    let client = firewall(&machine, "ctr1", DUAL, &json!({}));
    client.add();
    client.clone().with("prevResult", json!(null)).del();
    assert_same(&before, &State::of_host(machine.sandbox()));
}

#[test]
fn a_policy_is_one_of_iptables_also_here() {
    for policy in ["same-bridge", "isolated"] {
        let machine = FirewalldHost::with_firewalld();
        let client = firewall(&machine, "ctr1", DUAL, &json!({"ingressPolicy": policy}));
        client.add();
        assert_eq!(machine.sources("trusted"), SOURCES);
        for program in ["iptables", "ip6tables"] {
            let rules = machine.sandbox().sh(&format!("{program} --wait -S"));
            assert!(rules.contains(&format!("(ingressPolicy: {policy})")), "{rules}");
            assert!(!rules.contains("CNI-FORWARD") && !rules.contains("CNI-ADMIN"), "{rules}");
        }
        client.check();
        machine.sandbox().sh("iptables --wait -F CNI-ISOLATION-STAGE-2");
        client.call(Verb::Check).run().expect_error(100, "CNI-ISOLATION-STAGE-2 rule");
        client.add();
        client.check();
        client.del();
        assert_eq!(machine.sources("trusted"), [""; 0]);
    }
}

#[test]
fn gc_removes_the_sources_of_containers_that_are_no_more() {
    let machine = FirewalldHost::with_firewalld();
    let (kept, lost) =
        (firewall(&machine, "kept", &["10.88.0.6/24"], &json!({})), firewall(&machine, "lost", DUAL, &json!({})));
    kept.add();
    lost.add();
    let valid = json!([{"containerID": "kept", "ifname": "eth0"}]);
    let network = kept.clone().with("cni.dev/valid-attachments", valid).with("prevResult", json!(null));
    call_newer(&network, Verb::Gc).run().expect_success();
    assert_eq!(machine.sources("trusted"), ["10.88.0.6/32"]);
    kept.check();
}

#[test]
fn status_tells_whether_firewalld_is_there() {
    let mut machine = FirewalldHost::with_firewalld();
    let status = |machine: &FirewalldHost, keys| call_newer(&firewall(machine, "", V4, &keys), Verb::Status).run();
    for keys in [json!({"backend": "firewalld"}), json!({})] {
        status(&machine, keys).expect_success();
    }
    machine.stop_firewalld();
    status(&machine, json!({"backend": "firewalld"})).expect_error(50, "firewalld");
    status(&machine, json!({})).expect_success();
}

/// A container died without a DEL, and another one got its address, in another zone.
#[test]
fn the_address_of_a_dead_container_is_a_source_of_the_zone_of_the_next() {
    let machine = FirewalldHost::with_firewalld();
    let in_zone = |id: &str, zone: &str| firewall(&machine, id, V4, &json!({"firewalldZone": zone}));
    let old = machine.sandbox().container("old");
    in_zone("old", "trusted").add();
    old.remove();
    let container = machine.sandbox().container("new");
    container.sh("ip address add 10.88.0.5/32 dev lo");
    let new = in_zone("new", "internal");
    new.add();
    assert_eq!((machine.sources("internal"), machine.sources("trusted").len()), (vec![SOURCES[0].to_owned()], 0));
    new.check();
    in_zone("old", "trusted").del();
    assert_eq!(machine.sources("internal"), SOURCES[..1]);
    new.del();
    assert_eq!((machine.sources("internal").len(), machine.sandbox().sh("find /run/cni -type f").as_str()), (0, ""));
}

/// Its owner lives, so firewalld's refusal stays one.
#[test]
fn the_address_of_a_living_container_stays_in_its_zone() {
    let machine = FirewalldHost::with_firewalld();
    let old = machine.sandbox().container("old");
    old.sh("ip address add 10.88.0.5/32 dev lo");
    firewall(&machine, "old", V4, &json!({})).add();
    let _new = machine.sandbox().container("new");
    let refused = firewall(&machine, "new", V4, &json!({"firewalldZone": "internal"})).call(Verb::Add).run();
    assert!(refused.error().msg.contains("ZONE_CONFLICT") || refused.stdout().contains("ZONE_CONFLICT"), "{refused:?}");
    assert_eq!((machine.sources("trusted").len(), machine.sources("internal").len()), (1, 0));
}
