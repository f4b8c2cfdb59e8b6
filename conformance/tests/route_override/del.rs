//! DEL succeeds whatever was lost: the namespace, the interface, the result, half of an ADD.

use std::fs;
use std::path::Path;

use cni_conformance::Verb::{Add, Del};
use cni_conformance::cases::for_each;
use cni_conformance::{Loss, killed};
use serde_json::json;

use crate::route_override::setup::{Routed, all_keys};

#[test]
fn del_leaves_everything_as_it_was_and_comes_twice() {
    let routed = Routed::new();
    let before = routed.state();
    routed.succeeds(&[Add, Add], &all_keys());
    for _ in 0..2 {
        routed.succeeds(&[Del], &all_keys());
        assert_eq!(routed.state(), before);
    }
}

#[test]
fn del_needs_nothing_of_the_configuration() {
    for keys in [
        json!({"prevResult": null}),
        json!({"prevResult": {"cniVersion": "0.4.0"}}),
        json!({"prevResult": 7}),
        json!({"addroutes": "x"}),
        json!({"flushroutes": false}),
    ] {
        let routed = Routed::new();
        let before = routed.state();
        routed.succeeds(&[Add], &all_keys());
        routed.succeeds(&[Del], &keys);
        assert_eq!(routed.state(), before, "{keys}");
    }
}

#[test]
fn whatever_was_lost_del_succeeds_twice_and_makes_no_file() {
    for_each(Loss::ALL.map(|loss| (loss, loss)), |loss| {
        let routed = Routed::new();
        routed.succeeds(&[Add], &all_keys());
        let del = routed.del_after(loss, &all_keys());
        let before = (routed.files(), Path::new(routed.container.path()).exists());
        for _ in 0..2 {
            del.run().expect_success();
        }
        assert_eq!((routed.files(), Path::new(routed.container.path()).exists()), before);
    });
}

#[test]
fn a_route_that_no_longer_fits_does_not_fail_del() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &all_keys());
    routed.container.sh("ip address del 10.91.0.2/24 dev eth0");
    routed.succeeds(&[Del], &all_keys());
    let routes = routed.routes();
    assert!(routes.iter().any(|route| route.starts_with("default via fd00:91::1")), "{routes:?}");
}

#[test]
fn without_the_record_the_routes_stay_for_as_long_as_the_interface() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &all_keys());
    let made = routed.routes();
    fs::remove_dir_all("/run/cni/.cni-plugins-rs").expect("remove the records");
    routed.succeeds(&[Del], &all_keys());
    assert_eq!(routed.routes(), made);
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before.
#[test]
fn del_restores_what_a_killed_add_changed() {
    let then = |routed: &Routed, before: &Vec<String>| {
        routed.succeeds(&[Del], &json!({"prevResult": null}));
        assert_eq!(routed.state(), *before);
    };
    killed::at_each_moment(20, Routed::new, |routed| routed.call(Add, &all_keys()), Routed::state, then);
}
