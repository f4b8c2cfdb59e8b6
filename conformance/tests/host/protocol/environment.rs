//! The environment: which variables a command needs, and what their values may be.
//!
//! All of it is checked before standard input is looked at, which in these tests is no JSON.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use cni_conformance::{Invocation, Outcome, Sandbox, Verb};

use crate::protocol::{PLUGINS, VERBS, bare, ended};

const ALL: [&str; 4] = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];

/// Returns what a command needs, in the order in which missing variables are listed.
fn required(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Add | Verb::Check => &ALL,
        Verb::Del => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
        Verb::Gc | Verb::Status => &["CNI_PATH"],
        Verb::Version => &[],
    }
}

/// Prepares a call with all variables and no configuration.
fn call(sandbox: &Sandbox, plugin: &str, verb: Verb) -> Invocation {
    Invocation::new(sandbox, plugin, verb).netns("/run/netns/none").stdin(b"no JSON")
}

#[track_caller]
fn assert_error(outcome: &Outcome, code: u64, msg: &str, details: &str) {
    let error = outcome.error();
    assert_eq!((error.code, error.msg.as_str(), error.details.as_str()), (code, msg, details), "{outcome}");
}

/// Requires that the environment is accepted: what is wrong next is standard input.
#[track_caller]
fn assert_accepted(outcome: &Outcome) {
    outcome.expect_error(6, "error unmarshall network config: ");
}

#[test]
fn missing_variables_are_named_together_and_in_order() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        for verb in VERBS {
            let required = required(verb);
            for chosen in 1..(1_u32 << required.len()) {
                let missing: Vec<&str> =
                    (0..required.len()).filter(|bit| chosen >> bit & 1 == 1).map(|bit| required[bit]).collect();
                let text = format!("required env variables [{}] missing", missing.join(","));
                let plain = call(&sandbox, plugin, verb);
                let unset = missing.iter().fold(plain.clone(), |call, name| call.without_env(name));
                assert_error(&unset.run(), 4, &text, "");
                let empty = missing.iter().fold(plain, |call, name| call.env(name, ""));
                assert_error(&empty.run(), 4, &text, "");
            }
        }
    }
}

#[test]
fn variables_that_a_command_does_not_need_may_be_missing_or_wrong() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        for verb in VERBS {
            let unneeded = ALL.iter().filter(|name| !required(verb).contains(name));
            for name in unneeded {
                assert_accepted(&call(&sandbox, plugin, verb).without_env(name).run());
                assert_accepted(&call(&sandbox, plugin, verb).env(name, "-/:").run());
            }
        }
    }
}

#[test]
fn a_container_id_has_only_letters_digits_and_three_signs() {
    let sandbox = crate::protocol::sandbox();
    let bad = [
        "a/b",
        "/",
        "-a",
        ".a",
        "_a",
        "a b",
        " a",
        "a ",
        "a\n",
        "\n",
        "a\tb",
        "a:b",
        "a%",
        "a=b",
        "\u{e4}",
        "a\u{e4}",
        "a\u{a0}b",
        "\u{1d7d8}",
        "..",
        "a;b",
        "a\"b",
    ];
    let long = "x".repeat(4000);
    let good = ["a", "0", "Z9", "a.b_c-d", "a..", "0123456789abcdef", "a-", "a_", &long];
    for plugin in PLUGINS {
        for verb in [Verb::Add, Verb::Check, Verb::Del] {
            for id in bad {
                let outcome = call(&sandbox, plugin, verb).container_id(id).run();
                assert_error(&outcome, 4, "invalid characters in containerID", id);
            }
            for id in good {
                assert_accepted(&call(&sandbox, plugin, verb).container_id(id).run());
            }
        }
    }
}

const TOO_LONG: (&str, &str) = ("interface name is too long", "interface name should be less than 16 characters");
const DOTS: (&str, &str) = ("interface name is . or ..", "");
const CHARACTERS: (&str, &str) = ("interface name contains / or : or whitespace characters", "");

/// The first rule that is broken counts, and lengths are in bytes.
#[test]
fn an_interface_name_is_one_that_the_kernel_takes() {
    let sandbox = crate::protocol::sandbox();
    let bad = [
        ("abcdefghijklmnop", TOO_LONG),
        ("\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}", TOO_LONG),
        ("a/bcdefghijklmnop", TOO_LONG),
        ("................", TOO_LONG),
        (".", DOTS),
        ("..", DOTS),
        ("a/b", CHARACTERS),
        ("/", CHARACTERS),
        ("a:b", CHARACTERS),
        ("a b", CHARACTERS),
        (" ", CHARACTERS),
        ("a\tb", CHARACTERS),
        ("a\n", CHARACTERS),
        ("a\u{a0}b", CHARACTERS),
        ("a\u{85}b", CHARACTERS),
        ("a\u{2003}b", CHARACTERS),
        ("a\u{3000}b", CHARACTERS),
    ];
    let good = [
        "e",
        "eth0",
        "abcdefghijklmno",
        "-a",
        "%d",
        "...",
        "a.b",
        "a@b",
        "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}a",
    ];
    for plugin in PLUGINS {
        for verb in [Verb::Add, Verb::Check, Verb::Del] {
            for (name, (msg, details)) in bad {
                assert_error(&call(&sandbox, plugin, verb).ifname(name).run(), 4, msg, details);
            }
            for name in good {
                assert_accepted(&call(&sandbox, plugin, verb).ifname(name).run());
            }
        }
    }
}

#[test]
fn an_invalid_value_is_reported_before_missing_ones_and_the_container_id_first() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        for verb in [Verb::Add, Verb::Check, Verb::Del] {
            let plain = call(&sandbox, plugin, verb);
            let bad_id = plain.clone().container_id("-").ifname("a/b").without_env("CNI_PATH");
            assert_error(&bad_id.run(), 4, "invalid characters in containerID", "-");
            let bad_name = plain.without_env("CNI_CONTAINERID").without_env("CNI_PATH").ifname("a/b");
            assert_error(&bad_name.run(), 4, CHARACTERS.0, "");
        }
    }
}

#[test]
fn an_unknown_command_needs_no_variable_and_is_reported_after_the_configuration() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        for command in ["FOO", "add", "Add", " ADD", "ADD ", "VERSIONS", "version", "\u{e4}"] {
            let plain = Invocation::new(&sandbox, plugin, Verb::Add).env("CNI_COMMAND", command);
            let bare = ALL.iter().fold(plain.clone(), |call, name| call.without_env(name));
            for call in [plain.container_id("-").ifname("a/b"), bare] {
                assert_accepted(&call.clone().stdin(b"no JSON").run());
                assert_error(&call.clone().stdin(b"{}").run(), 7, "missing network name", "");
                let named = call.stdin(br#"{"name":"n1","cniVersion":1}"#).run();
                assert_error(&named, 4, &format!("unknown CNI_COMMAND: {command}"), "");
            }
        }
    }
}

/// Rust programs that ask for the environment as text die of foreign variables.
#[test]
fn variables_that_are_no_utf8_crash_nothing() {
    let sandbox = crate::protocol::sandbox();
    let bytes = OsStr::from_bytes(b"a\xffb");
    for plugin in PLUGINS {
        let mut command = bare(&sandbox, plugin);
        command.env("CNI_COMMAND", "VERSION").env("FOREIGN", bytes).env(bytes, "x");
        let version = ended(command.stdin(Stdio::null()).spawn().expect("start a plugin"));
        assert!(version.status.success(), "{plugin}: {version:?}");
        let mut command = bare(&sandbox, plugin);
        command.env("CNI_COMMAND", "ADD").env("CNI_CONTAINERID", bytes);
        let add = ended(command.stdin(Stdio::null()).spawn().expect("start a plugin"));
        assert_eq!(add.status.code(), Some(1), "{plugin}: {add:?}");
        let said = String::from_utf8(add.stdout).expect("an error object is UTF-8");
        assert!(said.contains("invalid characters in containerID"), "{plugin}: {said}");
    }
}
