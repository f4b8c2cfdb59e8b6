//! Plugins that call an IPAM plugin, and IPAM plugins themselves.

use serde_json::{Value, json};

use crate::suite::case::{PluginSelection, Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::ipam::{self, IpamCall, REMARK};
use crate::suite::judge::{CaseVerdict, JudgeOutcome, Mismatch, equal, require};
use crate::suite::subject::PluginKind;
use cni_conformance::Verb;
use cni_conformance::keys::with;
use cni_conformance::plugin::{Invocation, Outcome};

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Delegation, what, says, run).of(PluginSelection::Delegating)
}

const IPAM: PluginSelection = PluginSelection::Kinds(&[PluginKind::Ipam]);

pub const CASES: &[Template] = &[
    case("path", "an IPAM plugin in the second folder of CNI_PATH is found and called", |host| {
        host.add()?;
        call_of("ADD").map(drop)
    })
    .spec(&["delegate-path"]),
    case("path-nowhere", "ADD fails when the IPAM plugin is in no folder of CNI_PATH", |host| {
        host.try_to_add_with(&json!({"ipam": {"type": "no-such-plugin"}})).must_print_error().map(drop)
    })
    .spec(&["delegate-path"]),
    case("environment", "the IPAM plugin gets the variables of the call", environment).spec(&["delegate-environment"]),
    // The IPAM plugin behind flannel gets the configuration that flannel writes for its delegate.
    case("configuration", "the IPAM plugin gets the whole configuration", configuration)
        .spec(&["delegate-configuration"])
        .of(PluginSelection::DelegatingBut(&["flannel"])),
    case("stderr", "what the IPAM plugin prints on standard error comes out on the plugin's", stderr)
        .spec(&["delegate-stderr"]),
    case("check", "CHECK calls the IPAM plugin", |host| {
        let result = host.add()?;
        host.check(&result)?;
        call_of("CHECK").map(drop)
    })
    .spec(&["delegate-check"]),
    case("check-error", "CHECK fails with the IPAM plugin's error", |host| {
        let result = host.add()?;
        hands_on("CHECK", &host.call_with(Verb::Check, &host.guest, &result, &json!({})))
    })
    .spec(&["delegate-check"]),
    case("del", "DEL calls the IPAM plugin", |host| {
        let result = host.add()?;
        host.del(&result)?;
        call_of("DEL").map(drop)
    })
    .spec(&["delegate-del"]),
    case("del-error", "DEL fails with the IPAM plugin's error", |host| {
        let result = host.add()?;
        hands_on("DEL", &host.call_with(Verb::Del, &host.guest, &result, &json!({})))
    })
    .spec(&["delegate-del"]),
    case("gc", "GC calls the IPAM plugin", |host| {
        host.call_network(Verb::Gc, &json!({"cni.dev/valid-attachments": []})).run().must_succeed()?;
        let call = call_of("GC")?;
        require(call.stdin.contains("cni.dev/valid-attachments"), "the list of valid attachments", call.stdin)
    })
    .spec(&["delegate-gc"]),
    case("gc-error", "GC fails with the IPAM plugin's error", |host| {
        hands_on("GC", &host.call_network(Verb::Gc, &json!({"cni.dev/valid-attachments": []})))
    })
    .spec(&["delegate-gc"]),
    case("status", "STATUS calls the IPAM plugin", |host| {
        host.call_network(Verb::Status, &json!({})).run().must_succeed()?;
        call_of("STATUS").map(drop)
    })
    .spec(&["delegate-status"]),
    case("status-error", "STATUS fails with the IPAM plugin's error", |host| {
        hands_on("STATUS", &host.call_network(Verb::Status, &json!({})))
    })
    .spec(&["delegate-status"]),
    case("add-error", "ADD fails with the IPAM plugin's error", |host| hands_on("ADD", &host.call(Verb::Add)))
        .spec(&["delegate-rollback", "error-object"]),
    case("rollback", "when the IPAM plugin fails ADD, it is called with DEL", |host| {
        ipam::fail("ADD", 11, "no address today");
        host.call(Verb::Add).run().must_fail()?;
        call_of("DEL").map(drop)
    })
    .spec(&["delegate-rollback"]),
    case(
        "result",
        "an IPAM plugin answers with an address, its router and the routes of the configuration",
        ipam_result,
    )
    .spec(&["ipam-result"])
    .of(IPAM),
    case("abbreviated", "the result of an IPAM plugin has no interfaces, and its addresses point to none", abbreviated)
        .spec(&["ipam-abbreviated"])
        .of(IPAM),
];

/// Returns the first call of the stand-in with this command.
fn call_of(verb: &str) -> Result<IpamCall, Mismatch> {
    let all: Vec<String> = ipam::calls().iter().map(|call| call.verb.clone()).collect();
    ipam::calls_of(verb).into_iter().next().ok_or_else(|| Mismatch {
        expected: format!("a call of the IPAM plugin with {verb}"),
        got: format!("calls: {}", all.join(" ")),
    })
}

/// Requires that an error of the stand-in comes out.
fn hands_on(verb: &str, call: &Invocation) -> CaseVerdict {
    ipam::fail(verb, 111, "the stand-in does not want to");
    let outcome: Outcome = call.run();
    let error = outcome.must_print_error()?;
    require(error.text.contains("the stand-in does not want to"), "the IPAM plugin's error", outcome.in_short())
}

fn environment(host: &PrivateHost) -> CaseVerdict {
    let call = host.call(Verb::Add).args("IgnoreUnknown=1;FOO=BAR").env("CNI_OF_TOMORROW", "42");
    call.run().must_print_object()?;
    let got = call_of("ADD")?.environment;
    let path = got.get("CNI_PATH").cloned().unwrap_or_default();
    require(path.contains(ipam::PLUGINS), "CNI_PATH as it was", &path)?;
    for (key, value) in [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "ctr1"),
        ("CNI_NETNS", host.guest.container.path()),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", "IgnoreUnknown=1;FOO=BAR"),
        ("CNI_OF_TOMORROW", "42"),
    ] {
        equal(key, value, got.get(key).map_or("nothing", String::as_str))?;
    }
    Ok(())
}

fn configuration(host: &PrivateHost) -> CaseVerdict {
    let keys = json!({"args": {"labels": {"a": [1, 2.5, null, true]}}});
    let sent = with(&host.config(), &keys);
    host.call(Verb::Add).config(&sent).run().must_print_object()?;
    let text = call_of("ADD")?.stdin;
    let got: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    for (key, value) in sent.as_object().into_iter().flatten() {
        equal(key, value.clone(), got[key].clone())?;
    }
    Ok(())
}

fn stderr(host: &PrivateHost) -> CaseVerdict {
    let outcome = host.call(Verb::Add).run();
    outcome.must_print_object()?;
    require(outcome.stderr().contains(REMARK), format!("{REMARK:?} on standard error"), outcome.in_short())
}

fn ipam_result(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    let ip = &result["ips"][0];
    let whole = ip["address"].is_string() && ip["gateway"] == "10.88.0.1" && result["routes"][0]["dst"] == "0.0.0.0/0";
    require(whole, "an address, the gateway 10.88.0.1, and the route to 0.0.0.0/0", &result)
}

fn abbreviated(host: &PrivateHost) -> CaseVerdict {
    let result = host.add()?;
    let bare = result.get("interfaces").is_none() && result["ips"].as_array().into_iter().flatten().all(no_interface);
    require(bare, "no `interfaces`, and no `interface` in `ips`", &result)
}

fn no_interface(ip: &Value) -> bool {
    ip.get("interface").is_none()
}
