//! A second interface of the same container in the same network.

use cni_conformance::Verb::{Add, Check, Del};

use crate::bandwidth::setup::{IFB, Limited, both};

/// The reference's ifb has the same name for both.
#[test]
fn two_interfaces_in_one_network_are_limited_apart() {
    let limited = Limited::with_second_interface();
    limited.succeeds(&[Add], &both());
    let first = limited.traffic_control();
    limited.call(Add, &both()).ifname("net1").run().expect_success();
    assert_eq!(limited.links("ifb").len(), 2);
    limited.succeeds(&[Check], &both());
    limited.call(Check, &both()).ifname("net1").run().expect_success();
    limited.call(Del, &both()).ifname("net1").run().expect_success();
    assert_eq!((limited.links("ifb"), limited.traffic_control()), (vec![IFB.to_owned()], first));
    limited.succeeds(&[Check], &both());
}

#[test]
fn the_first_may_go_before_the_second() {
    let limited = Limited::with_second_interface();
    let before = limited.state();
    limited.succeeds(&[Add], &both());
    limited.call(Add, &both()).ifname("net1").run().expect_success();
    limited.succeeds(&[Del], &both());
    limited.call(Check, &both()).ifname("net1").run().expect_success();
    limited.call(Add, &both()).ifname("net1").run().expect_success();
    limited.call(Check, &both()).ifname("net1").run().expect_success();
    limited.call(Del, &both()).ifname("net1").run().expect_success();
    assert_eq!(limited.state(), before);
}
