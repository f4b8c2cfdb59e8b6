//! For any valid limits, DEL restores both sides to their state before ADD.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::drawn::holds;
use proptest::option;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;
use serde_json::{Value, json};

use crate::bandwidth::setup::Limited;

/// How many configurations are drawn: the same ones in every run.
const CASES: u32 = 16;

/// The longest name of a link.
const LONGEST: &str = "fifteen-bytes-0";

/// A rate and a burst that a frame fits into, both in bits.
fn limit() -> impl Strategy<Value = Option<(u64, u64)>> {
    let rate = select(vec![64, 1_000, 64_000, 8_000_000, 1_000_000_000, 4_294_967_296, 400_000_000_000]);
    option::of((rate, select(vec![12_112, 160_000, 10_000_000, 34_359_738_359])))
}

/// Keys, the interface's name, and what an administrator has put on the host's end before.
type Drawn = (Value, &'static str, Option<&'static str>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let name = select(vec!["eth0", "net1", LONGEST]);
    let before = option::of(select(vec!["tc qdisc add dev host1 clsact", "tc qdisc add dev host1 ingress"]));
    let version = select(vec!["1.1.0", "1.0.0", "0.4.0"]);
    (limit(), limit(), any::<bool>(), name, before, version).prop_map(
        |(ingress, egress, by_the_runtime, name, before, version)| {
            let mut limits = json!({});
            for (direction, limit) in [("ingress", ingress), ("egress", egress)] {
                if let Some((rate, burst)) = limit {
                    limits[format!("{direction}Rate")] = json!(rate);
                    limits[format!("{direction}Burst")] = json!(burst);
                }
            }
            let mut keys = if by_the_runtime { json!({"runtimeConfig": {"bandwidth": limits}}) } else { limits };
            keys["cniVersion"] = json!(version);
            (keys, name, before)
        },
    )
}

fn live((mut keys, name, before): Drawn) {
    let limited = Limited::new();
    limited.add_interface(if name == "eth0" { "net0" } else { name }, "host1", None);
    limited.note("host1", name);
    if name == "eth0" {
        limited.container.sh("ip link set eth0 down");
        limited.container.sh("ip link del eth0");
        limited.container.sh("ip link set net0 down name eth0");
        limited.container.sh("ip link set eth0 up");
    }
    before.iter().for_each(|line| drop(limited.sandbox.sh(line)));
    let before = limited.state();
    let inside = json!({"name": name, "sandbox": limited.container.path()});
    let reported = json!({"cniVersion": keys["cniVersion"], "interfaces": [{"name": "host1"}, inside]});
    keys["prevResult"] = reported;
    let call = |verb| limited.call(verb, &keys).ifname(name).run();
    call(Add).expect_success();
    call(Check).expect_success();
    for _ in 0..2 {
        call(Del).expect_success();
        assert_eq!(limited.state(), before);
    }
}

#[test]
fn del_leaves_both_sides_as_they_were() {
    holds(21, CASES, &drawn(), live);
}
