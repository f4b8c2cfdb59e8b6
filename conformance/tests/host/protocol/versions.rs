//! The check of `cniVersion`, before a plugin reads anything else in its configuration.
//!
//! The rest of these configurations is refused by every plugin, so a version that is accepted by mistake is noticed.

use cni_conformance::{Sandbox, State, Verb, plugins, state};
use serde_json::{Value, json};

use crate::protocol::{PLUGINS, VERSIONS, call, config, incompatible, versions_of, with};

/// A configuration that nothing but its version is asked of.
fn only_version(plugin: &str, version: &Value) -> Value {
    json!({"name": "n1", "type": plugin, "cniVersion": version, "prevResult": 1, "ipam": 1, "runtimeConfig": 1})
}

#[test]
fn add_and_del_take_exactly_the_versions_of_the_plugin() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let odd =
        ["9.9.9", "1.0", "1.2.0", "0.4.5", "v1.0.0", "abc", "1.1.0.0", " 1.0.0", "1.0.0\n", "-1.0.0", "1.0.0-rc1"];
    for plugin in PLUGINS {
        let refused = VERSIONS.into_iter().filter(|version| !versions_of(plugin).contains(version)).chain(odd);
        for version in refused {
            for verb in [Verb::Add, Verb::Del] {
                let outcome =
                    call(&sandbox, plugin, verb, &container).config(&only_version(plugin, &json!(version))).run();
                let error = outcome.expect_error(1, "incompatible CNI versions");
                assert_eq!(error.details, incompatible(plugin, version), "{outcome}");
            }
        }
    }
}

#[test]
fn add_and_del_work_in_every_version_of_the_plugin() {
    for plugin in plugins::that_can_add() {
        for version in versions_of(plugin) {
            let sandbox = crate::protocol::sandbox();
            let container = sandbox.container("ctr1");
            let config = config(plugin, version);
            let result = call(&sandbox, plugin, Verb::Add, &container).config(&config).run().result();
            assert_eq!(result["cniVersion"], json!(version), "{plugin}");
            for _ in 0..2 {
                let del = call(&sandbox, plugin, Verb::Del, &container).config(&config).run();
                assert_eq!((del.code(), del.stdout()), (Some(0), ""), "{del}");
            }
        }
    }
}

#[test]
fn without_a_version_it_is_0_1_0() {
    for plugin in plugins::that_can_add() {
        for version in [None, Some(json!("")), Some(json!(null))] {
            let sandbox = crate::protocol::sandbox();
            let container = sandbox.container("ctr1");
            let mut config = config(plugin, "0.1.0");
            config.as_object_mut().expect("an object").remove("cniVersion");
            if let Some(version) = version {
                config["cniVersion"] = version;
            }
            let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&config).run();
            if crate::protocol::versions_of(plugin).contains(&"0.1.0") {
                assert_eq!(outcome.result()["cniVersion"], json!("0.1.0"), "{outcome}");
            } else {
                let error = outcome.expect_error(1, "incompatible CNI versions");
                assert_eq!(error.details, incompatible(plugin, "0.1.0"));
            }
        }
    }
}

/// What each command of a later SPEC says to a version, or nothing when it goes on.
fn gate(plugin: &str, verb: Verb, version: &str) -> Option<(u64, String, String)> {
    let mut older = vec!["", "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.3", "0", "0.0.9"];
    if verb != Verb::Check {
        older.extend(["0.4.0", "0.4.5", "0.5.0", "1", "1.0", "1.0.0", "1.0.5"]);
    }
    let part = |name: &str, text: &str| {
        let msg = format!("failed to convert {name} version part {text:?}: not a number");
        Some((6, msg, String::new()))
    };
    match version {
        _ if older.contains(&version) => Some((1, format!("config version does not allow {verb}"), String::new())),
        "1.1.1" | "1.2.0" | "2" | "9.9.9" => Some((1, format!("plugin version does not allow {verb}"), String::new())),
        "abc" | "v1.0.0" | "" => part("major", version.split('.').next().unwrap_or_default()),
        "1.x" => part("minor", "x"),
        "1..0" => part("minor", ""),
        "1.1.x" => part("micro", "x"),
        "1.1.0.0" => Some((6, "invalid version \"1.1.0.0\": too many parts".to_owned(), String::new())),
        _ if versions_of(plugin).contains(&version) => None,
        _ => Some((1, "incompatible CNI versions".to_owned(), incompatible(plugin, version))),
    }
}

#[test]
fn check_gc_and_status_compare_numbers_first() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let odd = [
        "", "0", "0.3", "0.0.9", "0.4.5", "0.5.0", "1", "1.0", "1.0.5", "1.1", "1.1.1", "1.2.0", "2", "9.9.9", "abc",
        "v1.0.0", "1.x", "1..0", "1.1.x", "1.1.0.0",
    ];
    for plugin in PLUGINS {
        for verb in [Verb::Check, Verb::Gc, Verb::Status] {
            for version in VERSIONS.into_iter().chain(odd) {
                let Some(want) = gate(plugin, verb, version) else { continue };
                let outcome =
                    call(&sandbox, plugin, verb, &container).config(&only_version(plugin, &json!(version))).run();
                let error = outcome.error();
                assert_eq!((error.code, error.msg, error.details), want, "{version:?}: {outcome}");
            }
        }
    }
}

#[test]
fn a_number_beyond_all_bounds_is_a_decoding_error() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    for plugin in PLUGINS {
        let huge = only_version(plugin, &json!("99999999999999999999.0.0"));
        let outcome = call(&sandbox, plugin, Verb::Check, &container).config(&huge).run();
        outcome.expect_error(6, "failed to convert major version part \"99999999999999999999\"");
    }
}

#[test]
fn a_version_of_another_type_is_named_for_every_command() {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    for plugin in PLUGINS {
        for verb in crate::protocol::VERBS {
            for (version, shown) in
                [(json!(4711), "4711"), (json!(true), "true"), (json!(["1.0.0"]), ""), (json!({}), "")]
            {
                let outcome = call(&sandbox, plugin, verb, &container).config(&only_version(plugin, &version)).run();
                let error = outcome.expect_error(6, "decoding version from network config: ");
                // Go names the key, and of the value only its type.
                let said = format!("{}: {}", error.msg, error.details);
                assert!(said.contains("cniVersion") && said.contains(shown), "{outcome}");
            }
        }
    }
}

/// Returns the configuration of a network as libcni sends it for STATUS and GC: without a result,
/// and for GC with lists, with empty ones or, when its caller gave none, without.
fn of_the_network(plugin: &str) -> [Value; 4] {
    let config = config(plugin, "1.1.0");
    let mut plain = config.clone();
    plain.as_object_mut().expect("an object").remove("prevResult");
    let valid = json!([{"containerID": "ctr1", "ifname": "eth0"}]);
    let lists = with(&plain, &json!({"cni.dev/valid-attachments": valid, "cni.dev/attachments": valid}));
    let empty = with(&plain, &json!({"cni.dev/valid-attachments": [], "cni.dev/attachments": []}));
    [config, plain, lists, empty]
}

#[track_caller]
fn assert_silent(sandbox: &Sandbox, plugin: &str, verb: Verb, configs: &[Value]) {
    for config in configs {
        let named = call(sandbox, plugin, verb, sandbox.host());
        let unnamed = named.clone().container_id("").netns("").ifname("").args("");
        for call in [named, unnamed] {
            let outcome = call.config(config).run();
            assert_eq!((outcome.code(), outcome.stdout()), (Some(0), ""), "{config}: {outcome}");
        }
    }
}

#[test]
fn status_succeeds_silently_and_changes_nothing() {
    let sandbox = crate::protocol::sandbox();
    for plugin in plugins::that_can_add() {
        let before = State::of_host(&sandbox);
        assert_silent(&sandbox, plugin, Verb::Status, &of_the_network(plugin));
        state::assert_same(&before, &State::of_host(&sandbox));
    }
}

#[test]
fn gc_succeeds_silently() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let [_, _, lists, empty] = of_the_network(plugin);
        assert_silent(&sandbox, plugin, Verb::Gc, &[lists, empty]);
    }
}

/// libcni's `cnitool gc` sends no list, so nothing is known to be invalid.
#[test]
fn gc_without_a_list_succeeds_and_says_nothing() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let [config, plain, _, _] = of_the_network(plugin);
        assert_silent(&sandbox, plugin, Verb::Gc, &[config, plain]);
    }
}

#[test]
fn gc_changes_nothing_where_nothing_ever_was() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let before = State::of_host(&sandbox);
        for config in of_the_network(plugin) {
            call(&sandbox, plugin, Verb::Gc, sandbox.host()).config(&config).run();
        }
        state::assert_same(&before, &State::of_host(&sandbox));
    }
}
