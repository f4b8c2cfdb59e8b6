//! macvlan

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome};

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["macvlan"])
}

pub const CASES: &[Template] = &[
    add("macvlan-bridge-mode", "the mode is bridge unless the configuration says otherwise", |host| {
        host.add()?;
        host.container_shows("ip -details link show eth0", "macvlan mode bridge")
    }),
    add("macvlan-private-mode", "mode private is taken", |host| {
        host.add_with(&json!({"mode": "private"}))?;
        host.container_shows("ip -details link show eth0", "macvlan mode private")
    }),
    add("macvlan-vepa-mode", "mode vepa is taken", |host| {
        host.add_with(&json!({"mode": "vepa"}))?;
        host.container_shows("ip -details link show eth0", "macvlan mode vepa")
    }),
    add("macvlan-unknown-mode", "a mode that the kernel does not know is refused", |host| {
        host.try_to_add_with(&json!({"mode": "bogus"})).must_print_error().map(drop)
    }),
    add("macvlan-no-master", "a master that is not there is refused", |host| {
        host.try_to_add_with(&json!({"master": "not-there"})).must_print_error().map(drop)
    }),
    add("macvlan-mtu", "mtu is that of the interface", |host| {
        host.add_with(&json!({"mtu": 1400}))?;
        host.container_shows("ip link show eth0", "mtu 1400")
    }),
    add("macvlan-mtu-too-large", "an MTU above the master's is refused", |host| {
        host.try_to_add_with(&json!({"mtu": 9000})).must_print_error().map(drop)
    }),
    add("macvlan-mac", "the interface has the hardware address of runtimeConfig", |host| {
        host.add_with(&json!({"runtimeConfig": {"mac": "02:00:00:00:0a:0b"}}))?;
        host.container_shows("ip link show eth0", "02:00:00:00:0a:0b")
    }),
    add("macvlan-layer-two", "without an IPAM plugin the interface is up and has no address", |host| {
        host.add_with(&json!({"ipam": {}}))?;
        host.container_shows("ip link show eth0", "UP")
    }),
];
