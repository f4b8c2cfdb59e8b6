//! tap

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::CaseVerdict;

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["tap"])
}

pub const CASES: &[Template] = &[
    add("tap-kind", "the interface is a tap device", |host| {
        host.add()?;
        host.container_shows("ip -details link show eth0", "tun type tap")
    }),
    add("tap-mtu", "mtu is that of the interface", |host| {
        host.add_with(&json!({"mtu": 1400}))?;
        host.container_shows("ip link show eth0", "mtu 1400")
    }),
    add("tap-mac", "mac is that of the interface", |host| {
        host.add_with(&json!({"mac": "02:00:00:00:0a:0b"}))?;
        host.container_shows("ip link show eth0", "02:00:00:00:0a:0b")
    }),
    add("tap-owner", "the device belongs to the owner and the group of the configuration", |host| {
        host.add_with(&json!({"owner": 54321, "group": 54322}))?;
        host.container_shows("ip -details link show eth0", "user 54321 group 54322")
    }),
    add("tap-queues", "with multiQueue the device has more than one queue", |host| {
        host.add_with(&json!({"multiQueue": true}))?;
        host.container_shows("ip -details link show eth0", "multi_queue")
    }),
    add("tap-bridge", "with bridge the device is a port of that bridge of the container", |host| {
        host.guest.container.sh("ip link add inner0 type bridge");
        host.add_with(&json!({"bridge": "inner0"}))?;
        host.container_shows("ip link show eth0", "master inner0")
    }),
];
