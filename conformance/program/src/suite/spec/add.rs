//! ADD: what it makes, when it must fail, and what it does with an earlier result.

use std::thread;

use serde_json::{Value, json};

use crate::suite::case::{PluginSelection, Template, Topic};
use crate::suite::host::{CaseContainer, PrivateHost};
use crate::suite::judge::{CaseVerdict, JudgeOutcome, Mismatch, equal, require};
use crate::suite::subject::{PluginKind, host_local};
use cni_conformance::keys::with;
use cni_conformance::{Network, Verb};

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run)
}

const INTERFACE: PluginSelection = PluginSelection::Kinds(&[PluginKind::Interface]);
const CHAINED: PluginSelection = PluginSelection::Kinds(&[PluginKind::Chained]);

/// Plugins with many attachments at a time, each with an address of host-local.
const SHARING: PluginSelection = PluginSelection::Only(&["bridge", "ptp", "macvlan", "tap", "dummy", "host-local"]);

pub const CASES: &[Template] = &[
    case("result", "ADD that succeeds prints one object", |host| host.add().map(drop))
        .spec(&["add-result", "operations"]),
    case("interface", "ADD makes the interface in the container", interface).spec(&["add-interface"]).of(INTERFACE),
    case("interface-stays", "the interface in the container is there after ADD as before", interface)
        .spec(&["add-interface"])
        .of(CHAINED),
    case("loopback-up", "ADD brings lo up in the container", loopback_up)
        .spec(&["add-interface"])
        .of(PluginSelection::Kinds(&[PluginKind::Loopback])),
    case("ifname", "the interface in the container has the name in CNI_IFNAME", ifname)
        .spec(&["add-ifname"])
        .of(INTERFACE),
    case("occupied", "ADD fails when the container has an interface of that name, which stays as it is", occupied)
        .spec(&["add-occupied"])
        .of(INTERFACE),
    case("addresses", "the IPAM plugin's address and routes are there in the container", addresses)
        .spec(&["add-addresses", "well-known-keys"])
        .of(PluginSelection::Delegating),
    case("prev-result-kept", "interfaces, addresses and dns of the prevResult are in the result", prev_result)
        .spec(&["add-prev-result"])
        .of(CHAINED),
    case("echo", "a plugin that makes no interface or address prints the prevResult", echo)
        .spec(&["add-echo"])
        .of(PluginSelection::Only(&["firewall", "portmap", "sbr", "consul-cni"])),
    case("at-once", "ADDs for several containers at once all succeed, with an address each", at_once)
        .spec(&["concurrent"])
        .of(SHARING),
    case("at-once-chained", "ADDs for several containers at once all succeed", at_once)
        .spec(&["concurrent"])
        .of(CHAINED),
    case("two-interfaces", "DEL of one interface of a container leaves the other as it is", two_interfaces)
        .spec(&["state-key"])
        .of(SHARING),
    case("two-networks", "DEL in one network leaves the same container in another as it is", two_networks)
        .spec(&["state-key"])
        .of(PluginSelection::Only(&["host-local"])),
];

fn interface(host: &PrivateHost) -> CaseVerdict {
    host.add()?;
    let names: Vec<String> = host.inside().links.into_iter().map(|link| link.name).collect();
    require(names.iter().any(|name| name == "eth0"), "the interface eth0 in the container", names.join(" "))
}

fn loopback_up(host: &PrivateHost) -> CaseVerdict {
    host.add()?;
    require(host.inside().link("lo").is_some_and(|link| link.up), "lo up", "lo down")
}

fn ifname(host: &PrivateHost) -> CaseVerdict {
    let result = host.call(Verb::Add).ifname("net7").run().must_print_object()?;
    let inside = host.inside();
    require(inside.link("net7").is_some() && inside.link("eth0").is_none(), "net7 in the container", links(&inside))?;
    let listed = result["interfaces"].as_array().is_some_and(|list| list.iter().any(|entry| entry["name"] == "net7"));
    require(listed, "net7 in the result", &result)
}

fn links(network: &Network) -> String {
    network.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn occupied(host: &PrivateHost) -> CaseVerdict {
    host.guest.container.sh("ip link add eth0 address 02:00:00:00:00:99 type bridge");
    let before = host.state_with(&[&host.guest]);
    let inside = |lines: &[String]| lines.iter().filter(|line| line.starts_with("ctr1 ")).cloned().collect::<Vec<_>>();
    host.call(Verb::Add).run().must_print_error()?;
    let after = host.state_with(&[&host.guest]);
    let changes = cni_conformance::state::differences(&inside(&before), &inside(&after));
    crate::suite::judge::unchanged("the container as it was before", &changes)
}

fn addresses(host: &PrivateHost) -> CaseVerdict {
    host.add()?;
    let inside = host.inside();
    equal("addresses of eth0", host.guest.address(), inside.addresses_of("eth0").join(" "))?;
    let leads_out = |route: &cni_conformance::network::Route| route.destination == "0.0.0.0/0" && route.link == "eth0";
    let routes = inside.routes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    require(inside.routes.iter().any(leads_out), "a default route by eth0", routes)
}

fn prev_result(host: &PrivateHost) -> CaseVerdict {
    let before = host.guest.previous.clone().unwrap_or_default();
    let result = host.add()?;
    for key in ["interfaces", "ips"] {
        let entries = |object: &Value| object[key].as_array().cloned().unwrap_or_default();
        let name_of = |entry: &Value| entry.get("name").or_else(|| entry.get("address")).cloned().unwrap_or_default();
        let kept: Vec<Value> = entries(&result).iter().map(name_of).collect();
        for entry in entries(&before) {
            require(kept.contains(&name_of(&entry)), format!("{} still in `{key}`", name_of(&entry)), &result)?;
        }
    }
    equal("dns", before["dns"].clone(), result["dns"].clone())
}

fn echo(host: &PrivateHost) -> CaseVerdict {
    let before = host.guest.previous.clone().unwrap_or_default();
    equal("the result", before, host.add()?)
}

/// Sets host-local for plugins that ask an IPAM plugin; others have it already, or need none.
fn own_address(host: &PrivateHost) -> Value {
    if host.subject.delegates() { json!({"ipam": host_local()}) } else { json!({}) }
}

fn at_once(host: &PrivateHost) -> CaseVerdict {
    let guests: Vec<CaseContainer> = (0..6).map(|at| host.another(&format!("many{at}"), 20 + at)).collect();
    let keys = own_address(host);
    let calls: Vec<_> = guests
        .iter()
        .map(|guest| host.call_for(Verb::Add, guest).config(&with(&host.config_of(guest), &keys)))
        .collect();
    let outcomes = cni_conformance::at_once(&calls);
    let results: Vec<Value> = outcomes.iter().map(JudgeOutcome::must_print_object).collect::<Result<_, _>>()?;
    let mut addresses: Vec<String> = results.iter().map(|result| result["ips"][0]["address"].to_string()).collect();
    addresses.sort();
    let given = addresses.join(" ");
    addresses.dedup();
    require(addresses.len() == guests.len(), "an address for each", given)?;
    for (guest, result) in guests.iter().zip(&results) {
        host.call_with(Verb::Check, guest, result, &keys).run().must_succeed()?;
    }
    at_once_deleted(host, &guests, &results, &keys)
}

fn at_once_deleted(host: &PrivateHost, guests: &[CaseContainer], results: &[Value], keys: &Value) -> CaseVerdict {
    let calls: Vec<_> =
        guests.iter().zip(results).map(|(guest, result)| host.call_with(Verb::Del, guest, result, keys)).collect();
    thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|call| scope.spawn(|| call.run())).collect();
        running.into_iter().try_for_each(|call| match call.join() {
            Ok(outcome) => outcome.must_succeed().map(drop),
            Err(_) => Err(Mismatch { expected: "DEL in time".to_owned(), got: "a DEL that does not end".to_owned() }),
        })
    })
}

fn two_interfaces(host: &PrivateHost) -> CaseVerdict {
    let keys = own_address(host);
    let config = with(&host.config(), &keys);
    let call = |verb: Verb, name: &str, result: &Value| {
        let config = if result.is_null() { config.clone() } else { with(&config, &json!({"prevResult": result})) };
        host.call(verb).ifname(name).config(&config)
    };
    let first = call(Verb::Add, "eth0", &Value::Null).run().must_print_object()?;
    // Two default routes by one router would be one too many.
    let mut second_call = with(&config, &keys);
    if let Some(ipam) = second_call["ipam"].as_object_mut() {
        ipam.remove("routes");
    }
    let second = host.call(Verb::Add).ifname("net1").config(&second_call).run().must_print_object()?;
    require(first["ips"] != second["ips"], "another address for the second interface", &second)?;
    let second = with(&second_call, &json!({"prevResult": second}));
    host.call(Verb::Del).ifname("net1").config(&second).run().must_succeed()?;
    call(Verb::Check, "eth0", &first).run().must_succeed().map(drop)
}

fn two_networks(host: &PrivateHost) -> CaseVerdict {
    let other = with(&host.config(), &json!({"name": "n2"}));
    let first = host.add()?;
    let second = host.call(Verb::Add).config(&other).run().must_print_object()?;
    host.call(Verb::Del).config(&with(&other, &json!({"prevResult": second}))).run().must_succeed()?;
    host.check(&first)
}
