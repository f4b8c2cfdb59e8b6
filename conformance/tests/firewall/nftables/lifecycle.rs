//! The life of a container: what is written down, what DEL and GC take, and what needs no program.

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Sandbox, Standalone, State, Verb, at_once};
use serde_json::json;

use crate::firewall::nftables::layout::Golden;
use crate::firewall::nftables::{DUAL, V4, claims, elements, firewall, forget_claims, nft, table};

const IPS: [&str; 2] = ["10.88.0.5", "fd00:88::5"];

/// A host where another container has been, and stays.
fn inhabited(sandbox: &Sandbox) -> Standalone<'_> {
    let neighbour = firewall(sandbox, "neighbour", &["10.88.0.9/24", "fd00:88::9/64"], &json!({}));
    neighbour.add();
    neighbour
}

#[test]
fn no_program_is_run() {
    let sandbox = Sandbox::new();
    for policy in ["open", "same-bridge", "isolated"] {
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": policy, "cniVersion": "1.1.0"}));
        let lone = lone.with("cni.dev/valid-attachments", json!([{"containerID": "ctr1", "ifname": "eth0"}]));
        for verb in [Verb::Status, Verb::Add, Verb::Check, Verb::Gc, Verb::Del] {
            let outcome = lone.call(verb).traced(true).run();
            outcome.expect_success();
            assert!(outcome.children().is_empty(), "{verb}: {:?}", outcome.children());
        }
    }
}

#[test]
fn no_program_need_be_there() {
    let sandbox = Sandbox::new();
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": "isolated", "cniVersion": "1.1.0"}));
    let lone = lone.env("PATH", "/nowhere");
    lone.call(Verb::Status).run().expect_success();
    lone.add();
    lone.check();
    lone.gc(&[&lone]);
    lone.check();
    lone.del();
    assert!(elements(&sandbox).is_empty());
}

#[test]
fn status_makes_nothing() {
    let sandbox = Sandbox::new();
    let before = State::of_host(&sandbox);
    let lone = firewall(&sandbox, "", V4, &json!({"cniVersion": "1.1.0"}));
    lone.call(Verb::Status).run().expect_success();
    assert_same(&before, &State::of_host(&sandbox));
}

/// What comes before DEL, and DEL itself.
type Del = fn(&Sandbox, Standalone<'_>);

/// Whatever the runtime has forgotten, and whatever else was lost.
#[test]
fn del_takes_the_containers_own_addresses_and_no_others() {
    let rows: [(&str, Del); 6] = [
        ("as ADD", |_, lone| lone.del()),
        ("no prevResult", |_, lone| lone.with("prevResult", json!(null)).del()),
        ("no address in prevResult", |_, lone| lone.with("prevResult", json!({})).del()),
        ("prevResult of no use", |_, lone| lone.with("prevResult", json!({"ips": 7})).del()),
        ("no claims", |sandbox, lone| {
            forget_claims(sandbox);
            lone.del();
        }),
        ("other keys that are refused", |_, lone| {
            lone.with("ingressPolicy", json!("bogus")).with("iptablesAdminChainName", json!("A B")).del();
        }),
    ];
    for_each(rows, |del| {
        let sandbox = Sandbox::new();
        let neighbour = inhabited(&sandbox);
        let before = table(&sandbox);
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
        lone.add();
        assert_eq!(elements(&sandbox).len(), 4);
        del(&sandbox, lone.clone());
        assert_eq!(table(&sandbox), before);
        lone.del();
        assert_eq!(table(&sandbox), before);
        neighbour.check();
    });
}

#[test]
fn del_leaves_the_state_as_it_was() {
    let sandbox = Sandbox::new();
    inhabited(&sandbox);
    let before = State::of_host(&sandbox);
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
    lone.add();
    lone.del();
    assert_same(&before, &State::of_host(&sandbox));
    lone.del();
    assert_same(&before, &State::of_host(&sandbox));
}

#[test]
fn del_before_any_add_makes_nothing() {
    let sandbox = Sandbox::new();
    let before = State::of_host(&sandbox);
    firewall(&sandbox, "ctr1", DUAL, &json!({})).del();
    assert_same(&before, &State::of_host(&sandbox));
}

#[test]
fn del_succeeds_when_the_table_is_gone() {
    let sandbox = Sandbox::new();
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
    lone.add();
    nft(&sandbox, "delete table inet cni_firewall");
    lone.del();
    assert_eq!(claims(&sandbox), [""; 0]);
    assert!(!sandbox.sh("nft list ruleset").contains("cni_firewall"));
}

/// The address was given to another, and DEL of the first comes late.
#[test]
fn a_late_del_leaves_the_new_owner_of_an_address_alone() {
    for prev_result in [true, false] {
        let sandbox = Sandbox::new();
        let [old, new] = ["old", "new"].map(|id| firewall(&sandbox, id, DUAL, &json!({})));
        old.add();
        new.add();
        if prev_result {
            old.del()
        } else {
            old.clone().with("prevResult", json!(null)).del()
        }
        assert_eq!(elements(&sandbox), IPS);
        new.check();
        new.del();
        assert!(elements(&sandbox).is_empty());
    }
}

#[test]
fn interfaces_and_networks_of_a_container_are_kept_apart() {
    let sandbox = Sandbox::new();
    let first = firewall(&sandbox, "ctr1", V4, &json!({}));
    let second = firewall(&sandbox, "ctr1", &["10.88.0.6/24"], &json!({})).in_network("n1", "eth1");
    let third = firewall(&sandbox, "ctr1", &["10.89.0.6/24"], &json!({})).in_network("n2", "eth0");
    for lone in [&first, &second, &third] {
        lone.add();
    }
    first.clone().with("prevResult", json!(null)).del();
    assert_eq!(elements(&sandbox), ["10.88.0.6", "10.89.0.6"]);
    second.check();
    third.check();
    second.with("prevResult", json!(null)).del();
    assert_eq!(elements(&sandbox), ["10.89.0.6"]);
}

#[test]
fn gc_takes_the_addresses_of_lost_attachments() {
    let sandbox = Sandbox::new();
    let neighbour = inhabited(&sandbox);
    let elsewhere = firewall(&sandbox, "lost", &["10.89.0.6/24"], &json!({})).in_network("n2", "eth0");
    elsewhere.add();
    let before = State::of_host(&sandbox);
    let lost = firewall(&sandbox, "lost", DUAL, &json!({}));
    let second = firewall(&sandbox, "neighbour", &["10.88.0.10/24"], &json!({})).in_network("n1", "eth1");
    lost.add();
    second.add();
    for _ in ["first", "again"] {
        neighbour.gc(&[&neighbour]);
        assert_same(&before, &State::of_host(&sandbox));
    }
    neighbour.check();
    elsewhere.check();
    neighbour.gc(&[]);
    assert_eq!(elements(&sandbox), ["10.89.0.6"]);
}

#[test]
fn gc_without_a_list_takes_nothing() {
    let sandbox = Sandbox::new();
    let neighbour = inhabited(&sandbox);
    let before = State::of_host(&sandbox);
    let gc = neighbour.clone().with("cniVersion", json!("1.1.0"));
    gc.call(Verb::Gc).run().expect_success();
    assert_same(&before, &State::of_host(&sandbox));
}

/// A container that was given another address: CHECK and DEL know both.
#[test]
fn an_address_that_changed_is_taken_with_the_new_one() {
    let sandbox = Sandbox::new();
    firewall(&sandbox, "ctr1", V4, &json!({})).add();
    let moved = firewall(&sandbox, "ctr1", &["10.88.0.6/24"], &json!({}));
    moved.add();
    moved.check();
    moved.del();
    assert!(elements(&sandbox).is_empty(), "{}", table(&sandbox));
}

#[test]
fn first_containers_that_come_at_once_share_one_table() {
    let sandbox = Sandbox::new();
    let numbers = 1..=8;
    let lones: Vec<Standalone<'_>> = numbers
        .map(|number| {
            let addresses = [format!("10.88.0.{number}/24"), format!("fd00:88::{number}/64")];
            let keys = json!({"ingressPolicy": "same-bridge"});
            firewall(&sandbox, &format!("c{number}"), &addresses.each_ref().map(String::as_str), &keys)
        })
        .collect();
    let all = |verb| {
        let calls: Vec<_> = lones.iter().map(|lone| lone.call(verb)).collect();
        for outcome in at_once(&calls) {
            outcome.expect_success();
        }
    };
    let stage_1 = ["iifname \"br0\" oifname != \"br0\" jump isolation-stage-2"];
    let empty = Golden { stage_1: &stage_1, stage_2: &["oifname \"br0\" drop"], ..Golden::default() };
    let v4: Vec<String> = (1..=8).map(|number| format!("10.88.0.{number}")).collect();
    let v6: Vec<String> = (1..=8).map(|number| format!("fd00:88::{number}")).collect();
    let [v4, v6] = [&v4, &v6].map(|ips| ips.iter().map(String::as_str).collect::<Vec<_>>());
    let full = Golden { v4: &v4, v6: &v6, ..empty };
    all(Verb::Add);
    full.assert_listed(&sandbox);
    all(Verb::Check);
    all(Verb::Del);
    empty.assert_listed(&sandbox);
    all(Verb::Add);
    full.assert_listed(&sandbox);
}

/// What others have made under the same name cannot be used, and is not touched.
#[test]
fn a_table_that_is_somebody_elses_fails_add_and_nothing_is_left() {
    let script = [
        "add set inet cni_firewall containers_v4 { type inet_service ; }",
        "add chain inet cni_firewall isolation-stage-1 { type filter hook forward priority 5 ; }",
    ];
    for_each(script.map(|command| (command, command)), |command| {
        let sandbox = Sandbox::new();
        nft(&sandbox, "add table inet cni_firewall");
        nft(&sandbox, command);
        let before = State::of_host(&sandbox);
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": "same-bridge"}));
        let error = lone.call(Verb::Add).run().error();
        assert!(format!("{}: {}", error.msg, error.details).contains("cni_firewall"), "{error:?}");
        let after = State::of_host(&sandbox);
        assert_eq!(before.section("nftables"), after.section("nftables"));
        assert_eq!(claims(&sandbox), [""; 0]);
        lone.del();
    });
}
