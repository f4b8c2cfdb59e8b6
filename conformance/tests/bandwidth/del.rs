//! DEL succeeds whatever was lost: the namespace, the interface, the result, the limits, half of an ADD.

use std::time::Duration;

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::cases::for_each;
use cni_conformance::traffic::ping;
use cni_conformance::{Loss, killed};
use serde_json::{Value, json};

use crate::bandwidth::setup::{IFB, Limited, both, sending};

#[test]
fn del_leaves_everything_as_it_was_and_comes_twice() {
    let limited = Limited::new();
    let before = limited.state();
    limited.succeeds(&[Add], &both());
    for _ in 0..2 {
        limited.succeeds(&[Del], &both());
        assert_eq!(limited.state(), before);
    }
}

#[test]
fn del_needs_nothing_of_the_configuration() {
    for keys in [
        json!({"prevResult": null}),
        json!({"prevResult": {"cniVersion": "0.4.0"}}),
        json!({"prevResult": 7}),
        json!({"ingressRate": 1, "egressRate": "x", "runtimeConfig": 7}),
    ] {
        let limited = Limited::new();
        let before = limited.state();
        limited.succeeds(&[Add], &both());
        limited.succeeds(&[Del], &keys);
        assert_eq!(limited.state(), before, "{keys}");
    }
}

#[test]
fn whatever_was_lost_the_ifb_goes_and_del_comes_twice() {
    for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
        let limited = Limited::new();
        limited.succeeds(&[Add], &both());
        let del = limited.del_after(loss, &both());
        for _ in 0..2 {
            del.run().expect_success();
            assert_eq!(limited.links("ifb"), [""; 0]);
        }
    });
}

/// nerdctl calls DEL without a namespace, and the veth exists until the DEL of its plugin.
#[test]
fn without_a_namespace_the_redirect_goes_all_the_same() {
    let limited = Limited::new();
    limited.succeeds(&[Add], &sending());
    limited.call(Del, &sending()).netns("").run().expect_success();
    assert_eq!(limited.traffic_control(), [""; 0]);
}

/// The reference removes the ifb and leaves what leads there.
#[test]
fn what_the_container_sends_passes_after_del() {
    let limited = Limited::new();
    limited.sandbox.sh("ip address add 10.90.0.1/24 dev host0");
    limited.container.sh("ip address add 10.90.0.2/24 dev eth0");
    let answers = || ping(&limited.container, [10, 90, 0, 1].into(), Duration::from_secs(20));
    limited.succeeds(&[Add], &both());
    assert!(answers(), "with limits");
    limited.succeeds(&[Del], &both());
    assert!(answers(), "after DEL");
}

#[test]
fn a_link_of_another_kind_stays() {
    let limited = Limited::new();
    limited.sandbox.sh(&format!("ip link add {IFB} type bridge"));
    let before = limited.state();
    limited.succeeds(&[Del], &both());
    assert_eq!(limited.state(), before);
}

/// A container of the same name on another network, or another container, keeps what it has.
#[test]
fn what_belongs_to_others_stays() {
    let limited = Limited::new();
    limited.succeeds(&[Add], &both());
    let before = limited.state();
    let elsewhere = |keys: Value| {
        let mut keys = keys;
        keys["name"] = json!("n2");
        keys
    };
    limited.call(Del, &elsewhere(both())).netns("").run().expect_success();
    limited.call(Del, &both()).container_id("ctr2").netns("").run().expect_success();
    assert_eq!(limited.state(), before);
}

/// A late DEL whose path leads to a container that another plugin has made: nothing says whose veth it is.
#[test]
fn the_limit_of_a_veth_of_nobody_known_stays() {
    let limited = Limited::without_alias();
    let receiving = json!({"ingressRate": 8_000_000, "ingressBurst": 160_000});
    limited.succeeds(&[Add], &receiving);
    let before = limited.state();
    limited.call(Del, &receiving).container_id("ctr2").run().expect_success();
    assert_eq!(limited.state(), before);
    limited.succeeds(&[Check], &receiving);
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before.
#[test]
fn del_takes_away_what_a_killed_add_made() {
    let then = |limited: &Limited, before: &Vec<String>| {
        limited.succeeds(&[Del], &json!({"prevResult": null}));
        assert_eq!(limited.state(), *before);
    };
    killed::at_each_moment(24, Limited::new, |limited| limited.call(Add, &both()), Limited::state, then);
}
