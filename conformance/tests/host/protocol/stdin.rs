//! Standard input: one JSON object with the name of a network, and the order of all checks.
//!
//! The order is: environment, JSON, name, command, version, and only then the plugin's own keys.

use std::fs::File;

use cni_conformance::{Invocation, Outcome, Sandbox, Verb};
use serde_json::json;

use crate::protocol::{PLUGINS, VERBS, bare, call, ended};

/// Prepares a call that needs no container.
fn call_with(sandbox: &Sandbox, plugin: &str, verb: Verb, input: &[u8]) -> Invocation {
    call(sandbox, plugin, verb, sandbox.host()).stdin(input)
}

#[track_caller]
fn assert_error(outcome: &Outcome, code: u64, msg: &str, details: &str) {
    let error = outcome.error();
    assert_eq!((error.code, error.msg.as_str(), error.details.as_str()), (code, msg, details), "{outcome}");
}

#[test]
fn what_is_no_json_object_is_a_decoding_error() {
    let sandbox = crate::protocol::sandbox();
    let nested = "[".repeat(1_000_000);
    let nested_objects = format!("{{\"name\":\"n1\",\"x\":{}", "{\"x\":".repeat(200_000));
    let bad: [(&[u8], &str); 17] = [
        (b"", "unexpected end of JSON input"),
        (b" \n", "unexpected end of JSON input"),
        (b"{\"name\":\"n1\"", "unexpected end of JSON input"),
        (b"{\"name\":\"n1", "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"{\"name\":\"n1\"} t", "invalid character 't' after top-level value"),
        (b"{\"name\":\"n1\"}{}", "invalid character '{' after top-level value"),
        (b"[]", ""),
        (b"4711", ""),
        (b"true", ""),
        (b"\"text\"", ""),
        (b"{'name':'n1'}", ""),
        (b"{\"name\":\"n1\",}", ""),
        (b"{\"name\":\"n1\" // comment\n}", ""),
        (b"\xef\xbb\xbf{\"name\":\"n1\"}", ""),
        (nested.as_bytes(), ""),
        (nested_objects.as_bytes(), ""),
    ];
    for plugin in PLUGINS {
        for verb in VERBS {
            for (input, text) in bad {
                let outcome = call_with(&sandbox, plugin, verb, input).run();
                outcome.expect_error(6, &format!("error unmarshall network config: {text}"));
            }
        }
    }
}

/// Thirty times as much memory as text would be taken otherwise.
#[test]
fn what_is_longer_than_any_configuration_is_not_read() {
    let sandbox = crate::protocol::sandbox();
    let long = format!("{{\"name\":\"n1\",\"x\":[{}0]}}", "0,".repeat(40 << 20));
    for plugin in PLUGINS {
        let outcome = call_with(&sandbox, plugin, Verb::Add, long.as_bytes()).run();
        outcome.expect_error(6, "error unmarshall network config: longer than 16 MiB");
    }
}

#[test]
fn a_network_must_have_a_name() {
    let sandbox = crate::protocol::sandbox();
    let nameless: [&[u8]; 6] = [
        b"{}",
        b"null",
        b"{\"name\":\"\"}",
        b"{\"name\":null}",
        b"{\"title\":\"n1\"}",
        b"{\"name\":\"\",\"cniVersion\":1}",
    ];
    for plugin in PLUGINS {
        for verb in VERBS {
            for input in nameless {
                assert_error(&call_with(&sandbox, plugin, verb, input).run(), 7, "missing network name", "");
            }
        }
    }
}

#[test]
fn a_network_name_has_only_letters_digits_and_three_signs() {
    let sandbox = crate::protocol::sandbox();
    let bad =
        ["a/b", "../x", "-a", ".a", "_a", "a b", "a\n", "a\tb", "a:b", "\u{e4}", "a\u{a0}b", "a\u{0}b", "a;b", "<"];
    for plugin in PLUGINS {
        for verb in VERBS {
            for name in bad {
                let input = json!({"name": name, "cniVersion": 1}).to_string();
                let outcome = call_with(&sandbox, plugin, verb, input.as_bytes()).run();
                assert_error(&outcome, 7, "invalid characters found in network name", name);
            }
        }
        let long = "x".repeat(300);
        for name in ["n", "0", "a.b_c-d", "Net1", &long] {
            let input = json!({"name": name}).to_string();
            let outcome = call_with(&sandbox, plugin, Verb::Add, input.as_bytes()).env("CNI_COMMAND", "FOO").run();
            assert_error(&outcome, 4, "unknown CNI_COMMAND: FOO", "");
        }
    }
}

/// In a string, what is no UTF-8 becomes U+FFFD.
#[test]
fn a_name_that_is_no_utf8_has_invalid_characters() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let outcome = call_with(&sandbox, plugin, Verb::Add, b"{\"name\":\"n\xff\"}").run();
        assert_error(&outcome, 7, "invalid characters found in network name", "n\u{fffd}");
    }
}

/// Go names the key, and of the value only its type.
#[test]
fn a_name_of_another_type_is_named() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        for verb in VERBS {
            for (input, shown) in
                [("{\"name\":4711}", "4711"), ("{\"name\":true}", "true"), ("{\"name\":[\"n1\"]}", "")]
            {
                let outcome = call_with(&sandbox, plugin, verb, input.as_bytes()).run();
                let error = outcome.expect_error(6, "error unmarshall network config: ");
                let said = format!("{}: {}", error.msg.replace("network config", ""), error.details);
                assert!(said.contains("name") && said.contains(shown), "{outcome}");
            }
        }
    }
}

#[test]
fn checks_come_in_the_references_order() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let wrong_keys = r#""prevResult":1,"ipam":1,"runtimeConfig":1,"mtu":"x","backend":1"#;
        let worst = call_with(&sandbox, plugin, Verb::Add, b"no JSON").args("bad").without_env("CNI_PATH");
        assert_error(&worst.run(), 4, "required env variables [CNI_PATH] missing", "");
        let call = |input: &str| call_with(&sandbox, plugin, Verb::Add, input.as_bytes()).args("bad");
        call("no JSON").env("CNI_COMMAND", "FOO").run().expect_error(6, "error unmarshall network config: ");
        let bad_name = call(&format!(r#"{{"name":"a/b","cniVersion":1,{wrong_keys}}}"#)).env("CNI_COMMAND", "FOO");
        assert_error(&bad_name.run(), 7, "invalid characters found in network name", "a/b");
        let bad_command = call(&format!(r#"{{"name":"n1","cniVersion":1,{wrong_keys}}}"#)).env("CNI_COMMAND", "FOO");
        assert_error(&bad_command.run(), 4, "unknown CNI_COMMAND: FOO", "");
        let bad_type = call(&format!(r#"{{"name":"n1","cniVersion":1,{wrong_keys}}}"#));
        bad_type.run().expect_error(6, "decoding version from network config: ");
        let bad_version = call(&format!(r#"{{"name":"n1","cniVersion":"9.9.9",{wrong_keys}}}"#));
        bad_version.run().expect_error(1, "incompatible CNI versions");
    }
}

#[test]
fn standard_input_that_cannot_be_read_is_an_input_error() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        for verb in VERBS {
            let folder = File::open("/").expect("open a folder");
            let mut command = bare(&sandbox, plugin);
            command.envs([
                ("CNI_COMMAND", verb.as_str()),
                ("CNI_CONTAINERID", "ctr1"),
                ("CNI_NETNS", "/run/netns/none"),
            ]);
            command.envs([("CNI_IFNAME", "eth0"), ("CNI_PATH", "/nowhere")]).stdin(folder);
            let output = ended(command.spawn().expect("start a plugin"));
            let said = String::from_utf8(output.stdout).expect("an error object is UTF-8");
            assert_eq!(output.status.code(), Some(1), "{plugin} {verb}: {said}");
            for part in ["\"code\": 5", "error reading from stdin: ", "s a directory"] {
                assert!(said.contains(part), "{part} from {plugin} {verb}: {said}");
            }
        }
    }
}
