//! STATUS and GC, which are about a network, not a container.

use serde_json::{Value, json};

use crate::suite::case::{Needs, PluginSelection, Template, Topic};
use crate::suite::host::{CaseContainer, PrivateHost};
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use crate::suite::{Mismatch, ipam};
use cni_conformance::Verb;
use cni_conformance::keys::with;

pub const CASES: &[Template] = &[
    Template::new(Topic::Status, "ready", "STATUS succeeds on a host where ADD works", |host| {
        host.call_network(Verb::Status, &json!({})).run().must_succeed().map(drop)
    })
    .spec(&["status-ready", "operations"]),
    Template::new(
        Topic::Status,
        "not-ready",
        "STATUS fails without the programs or the service that ADD needs",
        not_ready,
    )
    .spec(&["status-not-ready", "status-exhausted"])
    .needs(Needs::Version)
    .of(PluginSelection::Only(&["firewall", "portmap", "dhcp"])),
    Template::new(Topic::Status, "informs", "ADD works after a STATUS that has failed", informs)
        .spec(&["status-informs"])
        .of(PluginSelection::Delegating),
    Template::new(Topic::Gc, "silent", "GC succeeds without a word, with attachments or without", silent)
        .spec(&["gc-silent", "operations"])
        .needs(Needs::Version),
    Template::new(Topic::Gc, "valid", "GC leaves attachments of the list as they are", valid).spec(&["gc-valid"]),
    Template::new(Topic::Gc, "stale", "GC takes away what a container has left that is gone without DEL", stale)
        .spec(&["gc-stale"])
        // Its second device comes back to the host, where it has been before.
        .of(PluginSelection::AllBut(&["host-device", "dhcp"])),
    Template::new(
        Topic::Gc,
        "goes-on",
        "GC removes the plugin's own rules although the IPAM plugin fails, and fails",
        goes_on,
    )
    .spec(&["gc-goes-on"])
    .of(PluginSelection::Only(&["bridge"])),
];

fn not_ready(host: &PrivateHost) -> CaseVerdict {
    let call = host.call_network(Verb::Status, &json!({"backend": "iptables"})).env("PATH", "/nowhere");
    let outcome = call.run();
    let error = outcome.must_print_error()?;
    require([50, 51].contains(&error.code), "code 50 or 51", outcome.in_short())
}

fn informs(host: &PrivateHost) -> CaseVerdict {
    ipam::fail("STATUS", 50, "not available");
    host.call_network(Verb::Status, &json!({})).run().must_fail()?;
    let result = host.add()?;
    host.check(&result)?;
    host.del(&result)
}

/// The list of valid attachments.
fn list(host: &PrivateHost, guests: &[&CaseContainer]) -> Value {
    let entry =
        |guest: &&CaseContainer| json!({"containerID": guest.container.name(), "ifname": host.subject.ifname()});
    json!({"cni.dev/valid-attachments": guests.iter().map(entry).collect::<Vec<_>>()})
}

fn silent(host: &PrivateHost) -> CaseVerdict {
    for guests in [&[][..], &[&host.guest]] {
        host.call_network(Verb::Gc, &list(host, guests)).run().must_succeed_silently()?;
    }
    Ok(())
}

fn valid(host: &PrivateHost) -> CaseVerdict {
    let second = host.another("ctr2", 6);
    let results = [host.add()?, host.add_of(&second)?];
    let guests = [&host.guest, &second];
    let before = host.state_with(&guests);
    host.call_network(Verb::Gc, &list(host, &guests)).run().must_succeed()?;
    host.is_as_before(&before, || host.state_with(&guests))?;
    guests.iter().zip(&results).try_for_each(|(guest, result)| host.check_of(guest, result))
}

/// Attaches a second container and takes its namespace away; returns how host and first container were before.
fn lose_second(host: &PrivateHost, keys: &Value) -> Result<Vec<String>, Mismatch> {
    let second = host.another("ctr2", 6);
    let before = without_cable(host, &second);
    host.call_for(Verb::Add, &second).config(&with(&host.config_of(&second), keys)).run().must_print_object()?;
    second.container.remove();
    Ok(before)
}

fn without_cable(host: &PrivateHost, second: &CaseContainer) -> Vec<String> {
    host.state().into_iter().filter(|line| !line.contains(&second.host_end())).collect()
}

fn stale(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    let before = lose_second(host, &json!({}))?;
    host.call_network(Verb::Gc, &list(host, &[&host.guest])).run().must_succeed()?;
    host.is_as_before(&before, || host.state())?;
    host.check(&result)
}

fn goes_on(host: &PrivateHost) -> CaseVerdict {
    let masquerade = json!({"ipMasq": true});
    host.add_with(&masquerade)?;
    let before = lose_second(host, &masquerade)?;
    ipam::fail("GC", 100, "the stand-in cannot clean up");
    let keys = with(&masquerade, &list(host, &[&host.guest]));
    let outcome = host.call_network(Verb::Gc, &keys).run();
    let error = outcome.must_print_error()?;
    require(error.text.contains("the stand-in cannot clean up"), "the IPAM plugin's error", outcome.in_short())?;
    host.is_as_before(&before, || host.state())
}
