//! `prevResult` is read in the shape of the configuration's version.
//!
//! The seven versions form three families; within one the object may name any version or none.

use cni_conformance::{Container, Outcome, Sandbox, State, Verb, plugins, state};
use serde_json::{Value, json};

use crate::protocol::{VERSIONS, call, config, prev_result, versions_of, with};

/// The plugins that read it on ADD.
/// The plugins that read `prevResult` on ADD.
fn readers() -> Vec<&'static str> {
    plugins::that_read_prev_result()
}

/// Returns the family of a version, as the texts name it.
fn family(version: &str) -> &'static str {
    match version {
        "0.1.0" | "0.2.0" => " 0.1.0 0.2.0",
        "1.0.0" | "1.1.0" => "1.0.0 1.1.0",
        _ => "0.3.0 0.3.1 0.4.0",
    }
}

/// A machine with one container.
struct PrevResultHost {
    container: Container,
    sandbox: Sandbox,
}

impl PrevResultHost {
    fn new() -> Self {
        let sandbox = crate::protocol::sandbox();
        Self { container: sandbox.container("ctr1"), sandbox }
    }

    fn state(&self) -> State {
        State::capture(&self.sandbox, &[&self.container])
    }

    #[track_caller]
    fn run(&self, plugin: &str, verb: Verb, config: &Value) -> Outcome {
        call(&self.sandbox, plugin, verb, &self.container).config(config).run()
    }

    #[track_caller]
    fn add(&self, plugin: &str, version: &str, previous: &Value) -> Outcome {
        let config = with(&config(plugin, version), &json!({"prevResult": previous}));
        let outcome = self.run(plugin, Verb::Add, &config);
        // An interface has one tap device.
        if plugin == "tc-redirect-tap" {
            self.run(plugin, Verb::Del, &config).expect_success();
        }
        outcome
    }
}

#[track_caller]
fn assert_refused(outcome: &Outcome, version: &str, found: &str) {
    let error = outcome.error();
    assert!([1, 6, 7].contains(&error.code), "{outcome}");
    let text = format!("result type supports [{}] but unmarshalled CNIVersion is {found:?}", family(version));
    let said = format!("{}: {}", error.msg, error.details);
    assert!(said.contains("could not parse prevResult: ") && said.contains(&text), "{text:?} in {outcome}");
}

#[test]
fn any_version_of_the_same_family_is_accepted_and_printed_as_the_configurations() {
    for plugin in readers() {
        let machine = PrevResultHost::new();
        for version in versions_of(plugin) {
            for other in VERSIONS.into_iter().filter(|other| family(other) == family(version)) {
                let result = machine.add(plugin, version, &prev_result(other)).result();
                assert_eq!(result["cniVersion"], json!(version), "{plugin} {version} behind {other}");
            }
        }
    }
}

#[test]
fn a_version_of_another_family_is_refused_before_any_work() {
    let machine = PrevResultHost::new();
    let before = machine.state();
    for plugin in readers() {
        for version in versions_of(plugin) {
            for other in VERSIONS.into_iter().chain(["9.9.9", "1.0"]).filter(|other| family(other) != family(version)) {
                let previous = with(&prev_result(version), &json!({"cniVersion": other}));
                assert_refused(&machine.add(plugin, version, &previous), version, other);
            }
        }
        state::assert_same(&before, &machine.state());
    }
}

#[test]
fn without_a_version_it_is_the_configurations_but_an_empty_one_is_not() {
    let machine = PrevResultHost::new();
    for plugin in readers() {
        for version in versions_of(plugin) {
            let mut previous = prev_result(version);
            previous["cniVersion"] = json!("");
            let outcome = machine.add(plugin, version, &previous);
            if family(version) == family("0.1.0") {
                assert_eq!(outcome.result()["cniVersion"], json!(version), "{outcome}");
            } else {
                assert_refused(&outcome, version, "");
            }
            previous.as_object_mut().expect("an object").remove("cniVersion");
            assert_eq!(machine.add(plugin, version, &previous).result()["cniVersion"], json!(version), "{plugin}");
        }
    }
}

/// The bridge plugin makes the first result, so it reads one only on CHECK.
#[test]
fn the_bridge_plugin_reads_it_on_check_only() {
    let machine = PrevResultHost::new();
    let foreign = json!({"prevResult": with(&prev_result("1.0.0"), &json!({"cniVersion": "0.4.0"}))});
    let config = with(&config("bridge", "1.0.0"), &foreign);
    machine.run("bridge", Verb::Add, &config).expect_success();
    assert_refused(&machine.run("bridge", Verb::Check, &config), "1.0.0", "0.4.0");
}

#[test]
fn chained_plugins_cannot_do_without() {
    let machine = PrevResultHost::new();
    let before = machine.state();
    for (plugin, verb, text) in [
        ("firewall", Verb::Add, "missing prevResult from earlier plugin"),
        ("firewall", Verb::Check, "missing prevResult from earlier plugin"),
        ("portmap", Verb::Add, "must be called as chained plugin"),
        ("portmap", Verb::Check, "Required prevResult missing"),
        ("tuning", Verb::Add, "Required prevResult missing"),
        ("tuning", Verb::Check, "Required prevResult missing"),
        ("sbr", Verb::Add, "This plugin must be called as chained plugin"),
        ("sbr", Verb::Check, "This plugin must be called as chained plugin"),
        ("bandwidth", Verb::Add, "must be called as chained plugin"),
        ("tc-redirect-tap", Verb::Add, "was this plugin chained with a previous one?"),
        ("tc-redirect-tap", Verb::Check, "was this plugin chained with a previous one?"),
        ("consul-cni", Verb::Check, "Required prevResult missing"),
    ] {
        for absent in [None, Some(json!(null))] {
            let mut config = config(plugin, "1.0.0");
            config.as_object_mut().expect("an object").remove("prevResult");
            if let Some(null) = absent {
                config["prevResult"] = null;
            }
            let error = machine.run(plugin, verb, &config).error();
            assert!(error.msg.contains(text) || error.details.contains(text), "{plugin} {verb}: {error:?}");
        }
    }
    state::assert_same(&before, &machine.state());
}

/// An empty object is a result without addresses: nothing to do, and nothing to say but its version.
#[test]
fn an_empty_object_is_a_result() {
    let machine = PrevResultHost::new();
    let before = machine.state();
    for plugin in ["firewall", "portmap"] {
        let outcome = machine.add(plugin, "1.0.0", &json!({}));
        assert_eq!(outcome.result(), json!({"cniVersion": "1.0.0"}), "{outcome}");
        let mut config = config(plugin, "1.0.0");
        config["prevResult"] = json!({});
        machine.run(plugin, Verb::Del, &config).expect_success();
    }
    state::assert_same(&before, &machine.state());
}
