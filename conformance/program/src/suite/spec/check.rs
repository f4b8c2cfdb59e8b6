//! CHECK: right after ADD, after a later plugin's work, and after each kind of damage.

use serde_json::{Value, json};

use crate::suite::case::{PluginSelection, Template, Topic};
use crate::suite::damage;
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome};
use crate::suite::subject::PluginKind;
use cni_conformance::Verb;
use cni_conformance::keys::with;

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Check, what, says, run)
}

const INTERFACE: PluginSelection = PluginSelection::Kinds(&[PluginKind::Interface]);

pub const CASES: &[Template] = &[
    case("at-once", "CHECK passes right after ADD", |host| {
        let result = host.add()?;
        host.check(&result)
    })
    .spec(&["check-at-once", "operations"]),
    case("silent", "CHECK that passes prints nothing", |host| {
        let result = host.add()?;
        host.call_with(Verb::Check, &host.guest, &result, &json!({})).run().must_succeed_silently()
    })
    .spec(&["check-silent"]),
    case("without-result", "CHECK without prevResult fails", without_result)
        .spec(&["check-prev-result"])
        .of(PluginSelection::Kinds(&[PluginKind::Interface, PluginKind::Chained])),
    case("other-address", "CHECK fails when prevResult has an address that the interface has not", other_address)
        .spec(&["check-prev-result"])
        .of(INTERFACE),
    case("other-interface", "CHECK fails when prevResult has no interface of the container", other_interface)
        .spec(&["check-prev-result"])
        .of(INTERFACE),
    case("later-route", "CHECK passes when a later plugin has added a route", |host| {
        later(host, &["ip route add 203.0.113.0/24 via 10.88.0.1"])
    })
    .spec(&["check-later-plugins"])
    .of(PluginSelection::Delegating),
    case("later-address", "CHECK passes when a later plugin has added an address", |host| {
        later(host, &["ip address add 10.99.0.1/32 dev eth0"])
    })
    .spec(&["check-later-plugins"])
    .of(PluginSelection::Delegating),
    case("later-mtu", "CHECK passes when a later plugin has made packets smaller", |host| {
        later(host, &["ip link set eth0 mtu 1300"])
    })
    .spec(&["check-later-plugins"])
    .of(PluginSelection::Delegating),
    case("interface-missing", "CHECK fails when the interface is gone", |host| inside(host, "ip link del eth0"))
        .spec(&["check-result"])
        .of(INTERFACE),
    case("address-missing", "CHECK fails when the address is gone", |host| {
        inside(host, "ip address flush dev eth0 scope global")
    })
    .spec(&["check-result"])
    .of(PluginSelection::Delegating),
    case("route-missing", "CHECK fails when a route of the result is gone", |host| {
        inside(host, "ip route del default")
    })
    .spec(&["check-result"])
    .of(PluginSelection::Delegating),
    case("lo-down", "CHECK fails when lo is down", |host| inside(host, "ip link set lo down"))
        .spec(&["check-unreachable"])
        .of(PluginSelection::Kinds(&[PluginKind::Loopback])),
    case("bridge-without-port", "CHECK fails when the container's link has left the bridge", port_gone)
        .spec(&["check-unreachable"])
        .of(PluginSelection::Only(&["bridge"])),
    case("damaged", "CHECK fails when what the plugin made beside the result is gone", damaged)
        .spec(&["check-other"])
        .of(PluginSelection::Damageable),
];

fn without_result(host: &PrivateHost) -> CaseVerdict {
    host.add()?;
    let mut config = host.config();
    if let Some(keys) = config.as_object_mut() {
        keys.remove("prevResult");
    }
    host.call(Verb::Check).config(&config).run().must_print_error().map(drop)
}

fn other_address(host: &PrivateHost) -> CaseVerdict {
    let mut result = host.add()?;
    result["ips"][0]["address"] = json!("10.88.0.77/24");
    host.check_must_fail(&result)
}

fn other_interface(host: &PrivateHost) -> CaseVerdict {
    let result = with(&host.add()?, &json!({"interfaces": [], "ips": []}));
    host.check_must_fail(&result)
}

fn later(host: &PrivateHost, lines: &[&str]) -> CaseVerdict {
    let result = host.add()?;
    for line in lines {
        host.guest.container.sh(line);
    }
    host.check(&result)
}

/// Requires that CHECK passes, and fails after this was run in the container.
fn inside(host: &PrivateHost, line: &str) -> CaseVerdict {
    let result = checked(host)?;
    host.guest.container.sh(line);
    host.check_must_fail(&result)
}

fn checked(host: &PrivateHost) -> Result<Value, crate::suite::Mismatch> {
    let result = host.add()?;
    host.check(&result)?;
    Ok(result)
}

fn port_gone(host: &PrivateHost) -> CaseVerdict {
    let result = checked(host)?;
    let network = host.outside();
    for link in network.links.iter().filter(|link| link.controller.is_some()) {
        host.sandbox.sh(&format!("ip link set {} nomaster", link.name));
    }
    host.check_must_fail(&result)
}

fn damaged(host: &PrivateHost) -> CaseVerdict {
    let result = checked(host)?;
    damage::of(host);
    host.check_must_fail(&result)
}
