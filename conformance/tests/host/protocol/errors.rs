//! The form of an error object; nothing else is printed besides it.
//!
//! On standard output, `cniVersion`, `code`, `msg` and `details` in this order, indented by four, with `<`, `>` and
//! `&` escaped and no newline at the end; exit status 1.

use std::fs::File;

use cni_conformance::{CniError, Invocation, Outcome, State, Verb, plugins, state};
use serde_json::{Value, json};

use crate::protocol::{PLUGINS, VERBS, VERSIONS, bare, call, config, ended, ifname, with};

/// Writes a string as Go's encoder does.
fn quoted(text: &str) -> String {
    let mut json = Value::from(text).to_string();
    for sign in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        json = json.replace(sign, &format!("\\u{:04x}", u32::from(sign)));
    }
    json
}

/// SPEC 0.4.0 and 1.0.0 require it of an error; the reference has none in it. Where a configuration cannot be read, it is the latest.
fn version_of(outcome: &Outcome) -> &'static str {
    let error: Value = serde_json::from_str(outcome.stdout()).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    let version = error["cniVersion"].as_str().unwrap_or_else(|| panic!("no cniVersion: {outcome}"));
    let known = VERSIONS.into_iter().find(|known| *known == version);
    known.unwrap_or_else(|| panic!("cniVersion {version}: {outcome}"))
}

#[track_caller]
fn assert_form(outcome: &Outcome) {
    let CniError { code, msg, details } = outcome.error();
    let details = if details.is_empty() { String::new() } else { format!(",\n    \"details\": {}", quoted(&details)) };
    let version = version_of(outcome);
    let form = format!(
        "{{\n    \"cniVersion\": \"{version}\",\n    \"code\": {code},\n    \"msg\": {}{details}\n}}",
        quoted(&msg)
    );
    assert_eq!(outcome.stdout(), form, "{outcome}");
    assert!(!msg.is_empty(), "{outcome}");
}

#[test]
fn every_refusal_has_the_one_form() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    for plugin in PLUGINS {
        for verb in VERBS {
            let plain = call(&sandbox, plugin, verb, &container).config(&config(plugin, "1.1.0"));
            let refused: [Invocation; 6] = [
                plain.clone().without_env("CNI_PATH"),
                plain.clone().stdin(b"<&>"),
                plain.clone().stdin(b"{\"name\":\"a<&>\\u2028b\"}"),
                plain.clone().config(&config(plugin, "0.0.1")),
                plain.clone().config(&json!({"name": "n1", "cniVersion": "<1&2>"})),
                plain.env("CNI_COMMAND", "<ADD&\u{2029}>"),
            ];
            for call in refused {
                assert_form(&call.run());
            }
        }
    }
}

#[test]
fn errors_of_the_plugins_own_have_the_same_form() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let wrong = [
        ("loopback", json!({"prevResult": "<&>"})),
        ("bridge", json!({"bridge": "<&>/\u{2028}"})),
        ("bridge", json!({"ipam": {"type": "<no&such>"}})),
        ("host-local", json!({"ipam": {"type": "host-local", "ranges": [[{"subnet": "<&>"}]]}})),
        ("firewall", json!({"ingressPolicy": "<&>"})),
        ("portmap", json!({"backend": "<&>"})),
    ];
    for (plugin, keys) in wrong {
        let config = with(&config(plugin, "1.0.0"), &keys);
        assert_form(&call(&sandbox, plugin, Verb::Add, &container).config(&config).run());
    }
}

#[test]
fn an_error_has_the_version_of_the_configuration_even_if_that_lacks_the_command() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    for (verb, config, version) in [
        (Verb::Check, json!({"cniVersion": "0.3.1", "name": "n1"}), "0.3.1"),
        (Verb::Gc, json!({"cniVersion": "0.3.1", "name": "n1"}), "0.3.1"),
        (Verb::Status, json!({"cniVersion": "1.0.0", "name": "n1"}), "1.0.0"),
        (Verb::Check, json!({"name": "n1"}), "0.1.0"),
        (Verb::Add, json!({"cniVersion": "0.4.0"}), "0.4.0"),
        (Verb::Add, json!({"cniVersion": "9.9.9", "name": "n1"}), "1.1.0"),
        (Verb::Add, json!([]), "1.1.0"),
    ] {
        let outcome = call(&sandbox, "vrf", verb, &container).config(&config).run();
        assert_eq!(version_of(&outcome), version, "{config}: {outcome}");
    }
}

/// Go says so on standard error and leaves the container half attached; ours takes it all back.
#[test]
fn a_result_that_cannot_be_written_is_undone() {
    for plugin in plugins::that_can_add() {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let warm = call(&sandbox, plugin, Verb::Add, &container).config(&config(plugin, "1.0.0"));
        warm.run().expect_success();
        let del = call(&sandbox, plugin, Verb::Del, &container).config(&config(plugin, "1.0.0"));
        del.run().expect_success();
        let before = State::capture(&sandbox, &[&container]);
        let full = File::options().write(true).open("/dev/full").expect("open /dev/full");
        let mut command = bare(&sandbox, plugin);
        command.envs([("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "ctr1"), ("CNI_NETNS", container.path())]);
        let folder = cni_conformance::binaries::under_test();
        command.env("CNI_IFNAME", ifname(plugin)).env("CNI_PATH", folder);
        command.stdin(written(&config(plugin, "1.0.0"))).stdout(full);
        let output = ended(command.spawn().expect("start a plugin"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{plugin}: {said}");
        assert!(said.contains("Error writing error JSON to stdout: "), "{plugin}: {said}");
        let changes = state::diff(&before, &State::capture(&sandbox, &[&container]));
        let left: Vec<_> = changes.iter().filter(|line| !line.contains("/last_reserved_ip.")).collect();
        assert!(left.is_empty(), "{plugin} left behind:\n{left:#?}");
    }
}

/// Puts a configuration into a file, for standard input.
fn written(config: &Value) -> File {
    let path = "/run/conformance/stdin";
    std::fs::write(path, config.to_string()).expect("write a configuration");
    File::open(path).expect("open a configuration")
}
