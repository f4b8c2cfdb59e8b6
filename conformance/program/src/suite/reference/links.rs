//! ipvlan, vlan, dummy and vrf, which the kernels of small machines often lack.

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::judge::JudgeOutcome;

pub const CASES: &[Template] = &[
    Template::new(Topic::Add, "ipvlan-mode", "the mode is l2 unless the configuration says otherwise", |host| {
        host.add()?;
        host.container_shows("ip -details link show eth0", "ipvlan  mode l2")
    })
    .page(&["ipvlan"]),
    Template::new(Topic::Add, "ipvlan-l3", "mode l3 is taken", |host| {
        host.add_with(&json!({"mode": "l3"}))?;
        host.container_shows("ip -details link show eth0", "mode l3")
    })
    .page(&["ipvlan"]),
    Template::new(Topic::Add, "ipvlan-unknown-mode", "an unknown mode is refused", |host| {
        host.try_to_add_with(&json!({"mode": "bogus"})).must_print_error().map(drop)
    })
    .page(&["ipvlan"]),
    Template::new(Topic::Add, "vlan-number", "the interface has the number of the configuration", |host| {
        host.add_with(&json!({"vlanId": 77}))?;
        host.container_shows("ip -details link show eth0", "id 77")
    })
    .page(&["vlan"]),
    Template::new(Topic::Add, "vlan-number-too-large", "a number above 4094 is refused", |host| {
        host.try_to_add_with(&json!({"vlanId": 4095})).must_print_error().map(drop)
    })
    .page(&["vlan"]),
    Template::new(Topic::Add, "dummy-kind", "the interface is a dummy, and up", |host| {
        host.add()?;
        host.container_shows("ip -details link show eth0", "dummy")
    })
    .page(&["dummy"]),
    Template::new(Topic::Add, "vrf-member", "the container's interface is a member of the VRF", |host| {
        host.add()?;
        host.container_shows("ip link show eth0", "master red")
    })
    .page(&["vrf"]),
    Template::new(Topic::Add, "vrf-table", "the VRF has the table of the configuration", |host| {
        host.add_with(&json!({"table": 1001}))?;
        host.container_shows("ip -details link show red", "table 1001")
    })
    .page(&["vrf"]),
];
