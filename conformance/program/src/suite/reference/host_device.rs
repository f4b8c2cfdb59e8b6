//! host-device

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};

const fn case(topic: Topic, what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(topic, what, says, run).page(&["host-device"])
}

pub const CASES: &[Template] = &[
    case(Topic::Add, "device-moves", "the device goes from the host into the container", |host| {
        host.add()?;
        let there = host.inside().link("eth0").is_some_and(|link| link.up && link.mac == host.guest.mac());
        let gone = host.outside().link(&host.guest.device()).is_none();
        require(there && gone, "eth0 in the container, up, and no ens5 on the host", host.sandbox.sh("ip link"))
    }),
    case(Topic::Add, "device-missing", "a device that is not there is refused", |host| {
        host.try_to_add_with(&json!({"device": "not-there"})).must_print_error().map(drop)
    }),
    case(Topic::Add, "device-by-address", "a device is found by its hardware address", |host| {
        host.add_with(&json!({"device": "", "hwaddr": host.guest.mac()}))?;
        require(host.inside().link("eth0").is_some(), "eth0 in the container", "no such link")
    }),
    case(Topic::Add, "device-none", "a configuration that names no device is refused", |host| {
        host.try_to_add_with(&json!({"device": ""})).must_print_error().map(drop)
    }),
    case(Topic::Del, "device-returns", "DEL brings the device back to the host under its name", |host| {
        let result = host.add()?;
        host.del(&result)?;
        let back = host.outside().link(&host.guest.device()).is_some_and(|link| link.mac == host.guest.mac());
        require(back, "ens5 on the host", host.sandbox.sh("ip link"))
    }),
];
