//! What every plugin refuses before any work, in the one order: environment, JSON, name, command, version, and only then the plugin's own keys.
//!
//! `common/core` tests the rules, row by row, and `cases/spec` each of them by itself; here are those that show that each plugin keeps the
//! order with each command, as an error object of the one form.

use cni_conformance::state::assert_same;
use cni_conformance::{CniError, Invocation, Outcome, State, Verb, plugins};
use serde_json::{Value, json};

use crate::protocol::{PLUGINS, VERBS, VERSIONS, call, config, versions_of, with};

/// Changes a call that has no configuration.
type Change = fn(Invocation) -> Invocation;

const DECODING: &str = "error unmarshall network config: ";

/// A call of any command with this change is refused with this code and the beginning of this text; the last two rows of ADD, CHECK and DEL.
const REFUSED: [(Change, u64, &str); 10] = [
    (|call| call.without_env("CNI_PATH").stdin(b"no JSON"), 4, "required env variables [CNI_PATH] missing"),
    (|call| call.stdin(b""), 6, "error unmarshall network config: unexpected end of JSON input"),
    (|call| call.stdin("[".repeat(1_000_000).as_bytes()), 6, DECODING),
    (|call| call.stdin(b"<&>\xe2\x80\xa8"), 6, DECODING),
    (
        |call| call.stdin(b"{\"name\":\"a<&>\\u2028b\"}").env("CNI_COMMAND", "FOO"),
        7,
        "invalid characters found in network name",
    ),
    (
        |call| call.stdin(b"{\"name\":\"n1\",\"cniVersion\":1}").env("CNI_COMMAND", "<ADD&>"),
        4,
        "unknown CNI_COMMAND: <ADD&>",
    ),
    (|call| call.stdin(b"{\"name\":\"n1\",\"cniVersion\":1,\"ipam\":1}"), 6, "decoding version from network config: "),
    (|call| call.stdin(b"{\"name\":\"n1\",\"cniVersion\":\"9.9.9\",\"ipam\":1,\"prevResult\":1}"), 1, ""),
    (
        |call| call.container_id("").ifname("").stdin(b"no JSON"),
        4,
        "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing",
    ),
    (|call| call.container_id("a/b").ifname("a/b").without_env("CNI_PATH"), 4, "invalid characters in containerID"),
];

/// Writes a string as Go's encoder does.
fn quoted(text: &str) -> String {
    let mut json = Value::from(text).to_string();
    for sign in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        json = json.replace(sign, &format!("\\u{:04x}", u32::from(sign)));
    }
    json
}

/// `cniVersion`, `code`, `msg` and `details` in this order, indented by four, with `<`, `>` and `&` escaped and no newline at the end.
#[track_caller]
fn assert_form(outcome: &Outcome) -> CniError {
    let error = outcome.error();
    let CniError { code, msg, details } = &error;
    let details = if details.is_empty() { String::new() } else { format!(",\n    \"details\": {}", quoted(details)) };
    let form = |version| {
        let msg = quoted(msg);
        format!("{{\n    \"cniVersion\": \"{version}\",\n    \"code\": {code},\n    \"msg\": {msg}{details}\n}}")
    };
    assert!(!msg.is_empty() && VERSIONS.into_iter().any(|version| outcome.stdout() == form(version)), "{outcome}");
    error
}

#[test]
fn every_plugin_refuses_alike_whatever_the_command() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let before = State::capture(&sandbox, &[&container]);
    for (plugin, verb) in PLUGINS.into_iter().flat_map(|plugin| VERBS.map(|verb| (plugin, verb))) {
        let rows = if matches!(verb, Verb::Gc | Verb::Status) { &REFUSED[..8] } else { &REFUSED };
        for (change, code, text) in rows {
            let outcome = change(call(&sandbox, plugin, verb, &container).args("bad")).run();
            let error = assert_form(&outcome);
            assert!(error.code == *code && error.msg.starts_with(text), "{code} {text}: {outcome}");
        }
        let netns = verb == Verb::Add || verb == Verb::Check;
        let outcome = call(&sandbox, plugin, verb, &container).netns("").stdin(b"no JSON").run();
        let missing = "required env variables [CNI_NETNS] missing";
        outcome.expect_error(if netns { 4 } else { 6 }, if netns { missing } else { DECODING });
    }
    assert_same(&before, &State::capture(&sandbox, &[&container]));
}

/// Without a version, it is 0.1.0.
#[test]
fn every_plugin_works_in_each_of_its_versions_and_prints_nothing_on_check_and_del() {
    for plugin in plugins::that_can_add() {
        let unsaid = versions_of(plugin).contains(&"0.1.0").then_some("");
        for version in versions_of(plugin).iter().copied().chain(unsaid) {
            let sandbox = crate::protocol::sandbox();
            let container = sandbox.container("ctr1");
            let spoken = if version.is_empty() { "0.1.0" } else { version };
            let mut config = with(&config(plugin, spoken), &json!({"cniVersion": version}));
            let result = call(&sandbox, plugin, Verb::Add, &container).config(&config).run().result();
            assert_eq!(result["cniVersion"], json!(spoken), "{plugin}");
            config["prevResult"] = result;
            let checked = (spoken >= "0.4.0").then_some(Verb::Check);
            for verb in checked.into_iter().chain([Verb::Del, Verb::Del]) {
                let outcome = call(&sandbox, plugin, verb, &container).config(&config).run();
                assert_eq!((outcome.code(), outcome.stdout()), (Some(0), ""), "{outcome}");
            }
        }
    }
}
