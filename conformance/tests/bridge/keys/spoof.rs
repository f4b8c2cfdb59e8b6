//! `macspoofchk`: frames with another sender's MAC address are dropped at the container's port.

use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::cases::for_each;
use cni_conformance::{Sandbox, State, Verb};
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, layer_two, network, text};

const SECOND: Duration = Duration::from_secs(1);

/// Returns what `nft` lists after the reference's transactions for these containers' ports.
fn golden(ports: &[(&str, &str, &str)]) -> String {
    let sandbox = Sandbox::new();
    let mut script = "add table bridge nat\n".to_owned();
    script
        .push_str("add chain bridge nat PREROUTING { type filter hook prerouting priority -300 ; policy accept ; }\n");
    for (id, host_end, mac) in ports {
        let (chain, comment) = (format!("cni-br-iface-{id}-eth0"), format!("comment \"macspoofchk-{id}-eth0\""));
        script.push_str(&format!(
            "add chain bridge nat {chain}\nadd chain bridge nat {chain}-mac\n\
             add rule bridge nat PREROUTING meta iifname == {host_end} jump {chain} {comment}\n\
             add rule bridge nat {chain} jump {chain}-mac {comment}\n\
             add rule bridge nat {chain}-mac ether saddr == {mac} return {comment}\n\
             add rule bridge nat {chain}-mac drop {comment}\n"
        ));
    }
    std::fs::write("/run/conformance/golden.nft", script).expect("write a script for nft");
    sandbox.sh("nft -f /run/conformance/golden.nft");
    table(&sandbox)
}

fn table(sandbox: &Sandbox) -> String {
    sandbox.sh("nft --stateless list table bridge nat")
}

/// The container's ID, its host end and its MAC address, as they stand in a result.
fn reported<'r>(id: &'r str, result: &'r Value) -> (&'r str, &'r str, &'r str) {
    (id, text(&result["interfaces"][1]["name"]), text(&result["interfaces"][2]["mac"]))
}

#[test]
fn the_rules_are_the_references_with_and_without_ipam() {
    let keys = json!({"macspoofchk": true});
    for_each([("layer 2", layer_two(keys.clone())), ("layer 3", network(&[V4], keys))], |config| {
        let sandbox = Sandbox::new();
        let [first, second] = ["id1", "id2"].map(|id| Port::new(&sandbox, id, config.clone()));
        let (one, two) = (first.add(), second.add());
        assert_eq!(table(&sandbox), golden(&[reported("id1", &one), reported("id2", &two)]));
        first.check(&one);
        first.del();
        assert_eq!(table(&sandbox), golden(&[reported("id2", &two)]));
        for _ in ["once", "again"] {
            second.del();
            assert_eq!(table(&sandbox), golden(&[]));
        }
    });
}

#[test]
fn without_the_key_there_are_no_rules() {
    for keys in [json!({}), json!({"macspoofchk": false}), json!({"macspoofchk": null})] {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", network(&[V4], keys));
        port.add();
        port.del();
        assert_eq!(State::of_host(&sandbox).section("nftables"), [""; 0]);
    }
}

/// The rules name the address of the container's interface, wherever that came from.
#[test]
fn a_configured_mac_is_the_one_that_may_send() {
    let sandbox = Sandbox::new();
    let keys = json!({"macspoofchk": true, "runtimeConfig": {"mac": "02:00:00:00:00:11"}});
    let result = Port::new(&sandbox, "id1", layer_two(keys)).add();
    let (id, host_end, _) = reported("id1", &result);
    assert_eq!(table(&sandbox), golden(&[(id, host_end, "02:00:00:00:00:11")]));
}

#[test]
fn frames_with_another_mac_do_not_get_through() {
    let sandbox = Sandbox::new();
    let keys = json!({"isGateway": true, "macspoofchk": true});
    let port = Port::new(&sandbox, "id1", network(&[V4], keys));
    let result = port.add();
    assert!(port.reaches("10.1.2.1", 20 * SECOND));
    port.container.sh("ip link set eth0 address 02:00:00:00:00:99");
    assert!(!port.reaches("10.1.2.1", SECOND / 2), "a stolen address must not get through");
    port.container.sh(&format!("ip link set eth0 address {}", reported("id1", &result).2));
    let started = Instant::now();
    while !port.reaches("10.1.2.1", SECOND / 4) {
        assert!(started.elapsed() < 60 * SECOND, "its own address must get through again");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Go appends another jump each time that an ADD comes back without a DEL in between.
#[test]
fn an_add_after_a_lost_del_does_not_pile_up_rules() {
    let sandbox = Sandbox::new();
    let config = network(&[V4], json!({"macspoofchk": true}));
    let port = Port::new(&sandbox, "id1", config.clone());
    port.add();
    port.container.remove();
    let again = Port::new(&sandbox, "id1", config);
    let result = again.add();
    assert_eq!(table(&sandbox), golden(&[reported("id1", &result)]));
}

/// Go leaves them for ever.
#[test]
fn del_removes_the_rules_without_a_live_namespace() {
    for netns in ["", "/run/netns/never"] {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", network(&[V4], json!({"macspoofchk": true})));
        port.add();
        port.container.remove();
        port.call(Verb::Del).netns(netns).run().expect_success();
        assert_eq!(table(&sandbox), golden(&[]), "netns {netns:?}");
    }
}

/// The reference's names have no network. A container that was lost in one network and came to another has a check for each.
/// Go's DEL removes the wrong one.
#[test]
fn what_is_stale_in_one_network_does_not_take_the_check_of_another() {
    let keys = || json!({"macspoofchk": true});
    let gc = json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": []});
    for_each([("DEL", None), ("GC", Some(gc))], |gc| {
        let sandbox = Sandbox::new();
        let mut other = network(&["10.9.9.0/24"], keys());
        cni_conformance::keys::set(&mut other, &json!({"name": "other", "bridge": "br9"}));
        let lost = Port::new(&sandbox, "id1", network(&[V4], keys()));
        let host_end = text(&lost.add()["interfaces"][1]["name"]).to_owned();
        // Somebody keeps the lost namespace, and its interface with it.
        let _kept = std::fs::File::open(lost.container.path()).expect("open the namespace");
        lost.container.remove();
        let port = Port::new(&sandbox, "id1", other);
        let result = port.add();
        match gc {
            None => drop(lost.call(Verb::Del).netns("").run().expect_success()),
            Some(keys) => {
                let mut config = network(&[V4], json!({"macspoofchk": true}));
                cni_conformance::keys::set(&mut config, &keys);
                lost.call(Verb::Gc).config(&config).run().expect_success();
            }
        }
        assert!(!sandbox.sh("ip -o link show").contains(&host_end), "the lost one's link is gone");
        assert_guards(&table(&sandbox), reported("id1", &result));
        port.check(&result);
        port.del();
        assert_eq!(table(&sandbox), golden(&[]));
    });
}

/// Requires one check, by whatever names, for the port of a result.
#[track_caller]
fn assert_guards(table: &str, (_, host_end, mac): (&str, &str, &str)) {
    assert!(table.contains(&format!("iifname \"{host_end}\" jump cni-br-iface-")), "{table}");
    assert!(table.contains(&format!("ether saddr {mac} return")), "{table}");
    assert_eq!(table.matches("jump ").count(), 2, "{table}");
}

/// The same container ID and interface name in two networks, each in a namespace of its own.
#[test]
fn each_network_has_a_check_of_its_own_that_goes_with_it() {
    let keys = || json!({"macspoofchk": true});
    for_each([("the first goes first", true), ("the second goes first", false)], |first_goes| {
        let sandbox = Sandbox::new();
        let mut other = network(&["10.9.9.0/24"], keys());
        cni_conformance::keys::set(&mut other, &json!({"name": "other", "bridge": "br9"}));
        let first = Port::new(&sandbox, "id1", network(&[V4], keys()));
        let one = first.add();
        let elsewhere = sandbox.container("elsewhere");
        let call = |verb| first.call(verb).config(&other).netns(elsewhere.path());
        let two = call(Verb::Add).run().result();
        first.check(&one);
        let of_second = |verb| {
            let mut config = other.clone();
            cni_conformance::keys::set(&mut config, &json!({"prevResult": two}));
            call(verb).config(&config).run().expect_success();
        };
        of_second(Verb::Check);
        if first_goes {
            first.del();
            assert_guards(&table(&sandbox), reported("id1", &two));
            of_second(Verb::Check);
            of_second(Verb::Del);
        } else {
            of_second(Verb::Del);
            assert_eq!(table(&sandbox), golden(&[reported("id1", &one)]));
            first.check(&one);
            first.del();
        }
        assert_eq!(table(&sandbox), golden(&[]));
    });
}

/// Chains cannot be named after an ID that is too long for the kernel's 128 bytes: Go fails.
#[test]
fn a_long_container_id_is_guarded_too() {
    let sandbox = Sandbox::new();
    let id = "a".repeat(64);
    let port = Port::new(&sandbox, &id, layer_two(json!({"macspoofchk": true})));
    let result = port.add();
    assert_eq!(table(&sandbox), golden(&[reported(&id, &result)]));
    port.del();
    assert_eq!(table(&sandbox), golden(&[]));
}
