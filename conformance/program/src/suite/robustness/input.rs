//! Invalid input: it gives one clear error, and changes nothing.

use serde_json::{Value, json};

use crate::suite::case::{Needs, PluginSelection, Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::ipam;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use crate::suite::subject::PluginKind;
use cni_conformance::Verb;
use cni_conformance::keys::with;
use cni_conformance::plugin::Invocation;

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Parameters, what, says, run).needs(Needs::Version)
}

pub const CASES: &[Template] = &[
    case("no-json", "what is no JSON object is refused by ADD, CHECK and DEL, and nothing changes", no_json),
    case("deep-json", "JSON a hundred thousand arrays deep crashes nothing", |host| {
        let deep = format!("{{\"name\": \"n1\", \"cniVersion\": \"1.0.0\", \"deep\": {}", "[".repeat(100_000));
        refused(host, &host.call(Verb::Add).stdin(deep.as_bytes()))
    }),
    case("large-json", "ADD works beside half a megabyte of a key that nobody knows", |host| {
        host.add_with(&json!({"org.example.large": "x".repeat(500_000)})).map(drop)
    })
    .needs(Needs::Add),
    case("wrong-types", "numbers in the place of objects and texts are refused, and nothing changes", wrong_types),
    case("broken-prev-result", "a prevResult that is no result is refused, and nothing changes", |host| {
        for previous in [json!("text"), json!([1]), json!({"cniVersion": "1.0.0", "ips": "none"})] {
            refused(host, &host.call(Verb::Add).config(&with(&host.config(), &json!({"prevResult": previous}))))?;
        }
        Ok(())
    })
    .of(PluginSelection::Kinds(&[PluginKind::Chained])),
    case("no-prev-result", "a chained plugin without prevResult is refused, and nothing changes", |host| {
        let mut config = host.config();
        if let Some(keys) = config.as_object_mut() {
            keys.remove("prevResult");
        }
        refused(host, &host.call(Verb::Add).config(&config))
    })
    // Without a mapping, or a limit, these have nothing to do.
    .of(PluginSelection::Only(&["firewall", "portmap", "bandwidth", "sbr", "vrf"])),
    case("netns-missing", "ADD for a namespace that is not there fails, and nothing changes", |host| {
        refused(host, &host.call(Verb::Add).netns("/run/netns/not-there"))
    })
    .of(PluginSelection::Kinds(&[PluginKind::Loopback, PluginKind::Interface])),
    case("netns-no-namespace", "ADD for a plain file in the place of a namespace fails, and nothing changes", |host| {
        let file = "/run/conformance/plain";
        std::fs::write(file, "").unwrap_or_else(|error| panic!("write {file}: {error}"));
        refused(host, &host.call(Verb::Add).netns(file))
    })
    .of(PluginSelection::Kinds(&[PluginKind::Loopback, PluginKind::Interface])),
    case("netns-of-host", "ADD for the host's own namespace fails, and nothing changes", |host| {
        let own = host.sandbox.host().path().to_owned();
        refused(host, &host.call(Verb::Add).netns(&own))
    })
    .of(PluginSelection::Kinds(&[PluginKind::Interface])),
    Template::new(
        Topic::Delegation,
        "nonsense",
        "answers of an IPAM plugin that are no result fail ADD, and nothing is left",
        |host| {
            for answer in ["", "no JSON", "[]", "{\"cniVersion\": \"1.0.0\", \"ips\": 7}"] {
                nonsense(host, answer)?;
            }
            Ok(())
        },
    )
    .of(PluginSelection::Delegating),
    Template::new(
        Topic::Delegation,
        "bad-address",
        "an address of an IPAM plugin that is none fails ADD, and nothing is left",
        |host| nonsense(host, r#"{"cniVersion": "1.0.0", "ips": [{"address": "10.88.0.300/24"}]}"#),
    )
    .of(PluginSelection::Delegating),
    Template::new(
        Topic::Delegation,
        "no-address",
        "an IPAM plugin without an address fails ADD, and nothing is left",
        |host| nonsense(host, r#"{"cniVersion": "1.0.0", "ips": []}"#),
    )
    .of(PluginSelection::Delegating),
];

/// Requires an error object, and that nothing has changed.
fn refused(host: &PrivateHost, call: &Invocation) -> CaseVerdict {
    let before = host.state();
    call.run().must_print_error()?;
    host.is_as_before(&before, || host.state())
}

fn no_json(host: &PrivateHost) -> CaseVerdict {
    let before = host.state();
    for input in ["", "\0", "{", "[]", "7", "\"text\"", "{\"name\": \"n1\"} more"] {
        for verb in [Verb::Add, Verb::Check, Verb::Del] {
            host.call(verb).stdin(input.as_bytes()).run().must_print_error()?;
        }
    }
    host.is_as_before(&before, || host.state())
}

fn wrong_types(host: &PrivateHost) -> CaseVerdict {
    let before = host.state();
    for keys in [json!({"name": 7}), json!({"cniVersion": []}), json!({"ipam": 7, "prevResult": 7, "runtimeConfig": 7})]
    {
        let config: Value = with(&host.config(), &keys);
        let outcome = host.call(Verb::Add).config(&config).run();
        require(!outcome.succeeded(), format!("a refusal of {keys}"), outcome.in_short())?;
        outcome.must_print_error()?;
    }
    host.is_as_before(&before, || host.state())
}

fn nonsense(host: &PrivateHost, answer: &str) -> CaseVerdict {
    // What containers share is there.
    let result = host.add()?;
    host.del(&result)?;
    let before = host.state();
    let call = host.call(Verb::Add);
    ipam::answer_text(answer);
    call.run().must_print_error()?;
    host.is_as_before(&before, || host.state())
}
