//! DEL whatever was lost: the namespace, the interface, the result, the record, half of an ADD.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cni_conformance::Verb::{Add, Del};
use cni_conformance::cases::for_each;
use serde_json::json;

use crate::routed::Routed;

#[test]
fn del_leaves_everything_as_it_was_and_comes_twice() {
    let routed = Routed::new();
    let before = routed.state();
    routed.succeeds(&[Add], &json!({}));
    for _ in 0..2 {
        routed.succeeds(&[Del], &json!({}));
        assert_eq!(routed.state(), before);
    }
}

#[test]
fn del_needs_nothing_of_the_configuration() {
    for keys in [
        json!({"prevResult": null}),
        json!({"prevResult": {"cniVersion": "0.4.0"}}),
        json!({"prevResult": 7}),
        json!({"table": "x"}),
        json!({"table": 0}),
    ] {
        let routed = Routed::new();
        let before = routed.state();
        routed.succeeds(&[Add], &json!({}));
        routed.succeeds(&[Del], &keys);
        assert_eq!(routed.state(), before, "{keys}");
    }
}

/// The reference makes an empty file of the path, which every other plugin's DEL then takes for a broken namespace.
#[test]
fn without_a_namespace_del_succeeds_and_makes_no_file() {
    type Loss = fn(&Routed) -> String;
    let losses: [(&str, Loss); 5] = [
        ("no namespace", |_| String::new()),
        ("a path that leads nowhere", |_| "/run/netns/none".to_owned()),
        ("a path without a folder", |_| "/run/none/none".to_owned()),
        ("a plain file", |routed| {
            routed.container.unmount();
            routed.container.path().to_owned()
        }),
        ("a namespace that is gone", |routed| {
            routed.container.remove();
            routed.container.path().to_owned()
        }),
    ];
    for_each(losses.map(|loss| (loss.0, loss.1)), |lose| {
        let routed = Routed::new();
        routed.succeeds(&[Add], &json!({}));
        let path = lose(&routed);
        let was_there = Path::new(&path).exists();
        for _ in 0..2 {
            routed.call(Del, &json!({})).netns(&path).run().expect_success();
        }
        assert_eq!(Path::new(&path).exists(), was_there, "{path}");
    });
}

#[test]
fn without_the_interface_the_rules_go() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &json!({}));
    routed.container.sh("ip link del net1");
    routed.succeeds(&[Del, Del], &json!({"prevResult": null}));
    assert_eq!(routed.rules(), [""; 0]);
}

/// What an administrator has made stays, from the same address too.
#[test]
fn rules_of_others_stay() {
    let routed = Routed::new();
    routed.container.sh("ip rule add from 10.91.0.2 lookup 50 priority 500");
    routed.container.sh("ip rule add from 10.90.0.2 lookup 100 priority 501");
    let before = routed.state();
    routed.succeeds(&[Add, Del], &json!({}));
    assert_eq!(routed.state(), before);
}

#[test]
fn without_the_record_the_rules_go() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &json!({}));
    fs::remove_dir_all("/run/cni/.cni-plugins-rs").expect("remove the records");
    routed.succeeds(&[Del], &json!({"prevResult": null}));
    assert_eq!(routed.rules(), [""; 0]);
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before.
#[test]
fn del_takes_away_what_a_killed_add_made() {
    let whole = {
        let routed = Routed::new();
        let outcome = routed.run(Add, &json!({}));
        outcome.expect_success();
        outcome.elapsed()
    };
    let mut hits = 0;
    for round in 0..20_u32 {
        let routed = Routed::new();
        let before = routed.state();
        let after = whole * (round + 1) / 21;
        hits += u32::from(routed.call(Add, &json!({})).killed_after(after).run().code().is_none());
        std::thread::sleep(Duration::from_millis(5));
        routed.succeeds(&[Del], &json!({"prevResult": null}));
        assert_eq!(routed.state(), before, "{after:?}");
    }
    assert!(hits >= 5, "only {hits} processes were killed before they ended");
}
