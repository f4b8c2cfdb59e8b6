//! Environment variables and standard input.

use serde_json::{Value, json};

use crate::suite::case::{Needs, PluginSelection, Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use crate::suite::subject::PluginKind;
use cni_conformance::keys::with;
use cni_conformance::plugin::Outcome;
use cni_conformance::{Network, Verb};

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Parameters, what, says, run).needs(Needs::Version).once()
}

pub const CASES: &[Template] = &[
    case("missing-container-id", "ADD, CHECK and DEL without CNI_CONTAINERID fail and name it", |host| {
        missing(host, "CNI_CONTAINERID", &[Verb::Add, Verb::Check, Verb::Del])
    })
    .spec(&["code-4", "required-variables", "container-id"]),
    case("missing-ifname", "ADD, CHECK and DEL without CNI_IFNAME fail and name it", |host| {
        missing(host, "CNI_IFNAME", &[Verb::Add, Verb::Check, Verb::Del])
    })
    .spec(&["code-4", "required-variables"]),
    case("missing-netns", "ADD and CHECK without CNI_NETNS fail and name it", |host| {
        missing(host, "CNI_NETNS", &[Verb::Add, Verb::Check])
    })
    .spec(&["code-4", "required-variables"]),
    case("unknown-command", "a command that the SPEC does not know fails, and CNI_COMMAND is named", unknown_command)
        .spec(&["code-4", "error-status"]),
    case("bad-container-id", "a container ID with other signs, or another beginning, is refused", bad_container_id)
        .spec(&["container-id"]),
    case("bad-ifname", "an interface name that the kernel cannot take is refused", bad_ifname)
        .spec(&["ifname-unusable", "ifname-rules"]),
    case("network-without-name", "a configuration without the name of a network is refused", |host| {
        refused_name(host, &Value::Null)
    })
    .spec(&["network-name"]),
    case("bad-network-name", "a network name with other signs, or another beginning, is refused", |host| {
        ["a/b", "-a", ".a", "_a", "a b"].iter().try_for_each(|name| refused_name(host, &json!(name)))
    })
    .spec(&["network-name"]),
    case("args-ignored", "ADD passes over labels in `args` that it does not know", args_ignored)
        .spec(&["args-ignored"])
        .needs(Needs::Add),
    case(
        "unknown-key",
        "a key that the plugin does not know is passed over, or refused with its name and value",
        unknown_key,
    )
    .spec(&["code-2"])
    .needs(Needs::Add),
    case(
        "no-namespace",
        "ADD for a namespace that is not there fails; with code 3 nothing is left to clean up",
        no_namespace,
    )
    .spec(&["code-3"])
    .of(PluginSelection::Kinds(&[PluginKind::Loopback, PluginKind::Interface])),
];

fn missing(host: &PrivateHost, variable: &str, verbs: &[Verb]) -> CaseVerdict {
    for verb in verbs {
        let outcome = host.call(*verb).without_env(variable).run();
        let error = outcome.must_print_error()?;
        require(
            error.code == 4 && error.text.contains(variable),
            format!("{verb}: code 4, and {variable} in the text"),
            outcome.in_short(),
        )?;
    }
    Ok(())
}

fn unknown_command(host: &PrivateHost) -> CaseVerdict {
    let outcome = host.call(Verb::Add).env("CNI_COMMAND", "FETCH").run();
    let error = outcome.must_print_error()?;
    require(
        error.code == 4 && error.text.contains("CNI_COMMAND"),
        "code 4, and CNI_COMMAND in the text",
        outcome.in_short(),
    )
}

fn refused(outcome: &Outcome, what: &str) -> CaseVerdict {
    let refused = outcome.code().is_some_and(|code| code != 0);
    require(refused, format!("a refusal of {what}"), outcome.in_short())
}

fn bad_container_id(host: &PrivateHost) -> CaseVerdict {
    for id in ["-a", ".a", "_a", "a/b", "a b", "a:b", "a\u{e4}"] {
        for verb in [Verb::Add, Verb::Check, Verb::Del] {
            refused(&host.call(verb).container_id(id).run(), &format!("the container ID {id:?} by {verb}"))?;
        }
    }
    Ok(())
}

fn bad_ifname(host: &PrivateHost) -> CaseVerdict {
    for name in ["sixteen-bytes-xx", ".", "..", "a/b", "a:b", "a b"] {
        for verb in [Verb::Add, Verb::Check, Verb::Del] {
            refused(&host.call(verb).ifname(name).run(), &format!("the interface name {name:?} by {verb}"))?;
        }
    }
    Ok(())
}

fn refused_name(host: &PrivateHost, name: &Value) -> CaseVerdict {
    let mut config = with(&host.config(), &json!({"name": name}));
    if name.is_null()
        && let Some(keys) = config.as_object_mut()
    {
        keys.remove("name");
    }
    let outcome = host.call(Verb::Add).config(&config).run();
    outcome.must_print_error()?;
    require(Network::observe(&host.guest.container).link("eth0").is_some() == is_chained(host), "no interface", "one")
}

fn is_chained(host: &PrivateHost) -> bool {
    host.subject.kind == PluginKind::Chained
}

fn args_ignored(host: &PrivateHost) -> CaseVerdict {
    host.add_with(&json!({"args": {"labels": {"appVersion": "1.0"}, "org.example.other": [1, {"a": null}]}})).map(drop)
}

fn unknown_key(host: &PrivateHost) -> CaseVerdict {
    let outcome = host.try_to_add_with(&json!({"org.example.key": "an odd value"}));
    if outcome.succeeded() {
        return outcome.must_print_object().map(drop);
    }
    let error = outcome.must_print_error()?;
    let named = error.text.contains("org.example.key") && error.text.contains("an odd value");
    require(error.code == 2 && named, "success, or code 2 with the key and its value in the text", outcome.in_short())
}

fn no_namespace(host: &PrivateHost) -> CaseVerdict {
    let before = host.state();
    let outcome = host.call(Verb::Add).netns("/run/netns/not-there").run();
    let error = outcome.must_print_error()?;
    if error.code == 3 { host.is_as_before(&before, || host.state()) } else { Ok(()) }
}
