//! DEL succeeds whatever was lost: the namespace, the interface, the result, the record, half of an ADD.

use std::fs;
use std::path::Path;

use cni_conformance::Verb::{Add, Del};
use cni_conformance::cases::for_each;
use cni_conformance::{Loss, killed};
use serde_json::json;

use crate::sbr::setup::Routed;

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

/// The reference makes an empty file of the path, which DEL of every other plugin then treats as a broken namespace.
#[test]
fn whatever_was_lost_del_succeeds_twice_and_makes_no_file() {
    for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
        let routed = Routed::new();
        routed.succeeds(&[Add], &json!({}));
        let del = routed.del_after(loss, &json!({}));
        let before = (routed.files(), Path::new(routed.container.path()).exists());
        for _ in 0..2 {
            del.run().expect_success();
            let is_forgotten = loss.ends_the_namespace() || loss == Loss::NetnsPath;
            assert!(is_forgotten || routed.rules().is_empty(), "{:?}", routed.rules());
        }
        assert_eq!((routed.files(), Path::new(routed.container.path()).exists()), before);
    });
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

#[test]
fn the_rules_go_with_an_add_that_comes_after_the_record_was_lost() {
    let routed = Routed::new();
    routed.container.sh("ip rule add from 10.91.0.2 lookup 50 priority 500");
    let before = routed.rules();
    routed.succeeds(&[Add], &json!({}));
    fs::remove_dir_all("/run/cni/.cni-plugins-rs").expect("remove the records");
    routed.succeeds(&[Add, Del], &json!({}));
    assert_eq!(routed.rules(), before);
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before.
#[test]
fn del_takes_away_what_a_killed_add_made() {
    let then = |routed: &Routed, before: &Vec<String>| {
        routed.succeeds(&[Del], &json!({"prevResult": null}));
        assert_eq!(routed.state(), *before);
    };
    killed::at_each_moment(20, Routed::new, |routed| routed.call(Add, &json!({})), Routed::state, then);
}
