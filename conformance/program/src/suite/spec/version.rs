//! VERSION, and the check of `cniVersion`.

use serde_json::{Value, json};

use crate::suite::case::{Needs, Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, equal, require};
use cni_conformance::Verb;
use cni_conformance::keys::with;

pub const CASES: &[Template] = &[
    Template::new(
        Topic::Version,
        "answer",
        "VERSION prints the versions that the plugin supports, as a list of texts",
        answer,
    )
    .spec(&["version-answer", "operations"])
    .needs(Needs::Nothing)
    .once(),
    Template::new(Topic::Version, "echo", "VERSION answers in the version of the question", echo)
        .spec(&["version-echo"])
        .needs(Needs::Version),
    Template::new(
        Topic::Version,
        "without-parameters",
        "VERSION needs no variable but CNI_COMMAND",
        without_parameters,
    )
    .spec(&["version-without-parameters"])
    .needs(Needs::Nothing)
    .once(),
    Template::new(
        Topic::Version,
        "unsupported",
        "ADD in a version that no plugin knows is refused with code 1",
        unsupported,
    )
    .spec(&["version-unsupported", "error-status", "error-object"])
    .needs(Needs::Nothing)
    .once(),
];

fn question(host: &PrivateHost) -> Value {
    json!({"cniVersion": host.version.as_str()})
}

fn answer(host: &PrivateHost) -> CaseVerdict {
    let outcome = host.call(Verb::Version).config(&question(host)).run();
    let object = outcome.must_print_object()?;
    let is_list =
        |list: &Value| list.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string));
    require(
        is_list(&object["supportedVersions"]) && object["cniVersion"].is_string(),
        "`supportedVersions`, a list of texts, and `cniVersion`",
        outcome.in_short(),
    )
}

fn echo(host: &PrivateHost) -> CaseVerdict {
    let object = host.call(Verb::Version).config(&question(host)).run().must_print_object()?;
    equal("cniVersion", json!(host.version.as_str()), object["cniVersion"].clone())
}

fn without_parameters(host: &PrivateHost) -> CaseVerdict {
    let names = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"];
    let call = host.call(Verb::Version).config(&question(host));
    let call = names.iter().fold(call, |call, name| call.without_env(name));
    call.run().must_print_object().map(drop)
}

fn unsupported(host: &PrivateHost) -> CaseVerdict {
    let config = with(&host.config(), &json!({"cniVersion": "99.0.0"}));
    let outcome = host.call(Verb::Add).config(&config).run();
    let error = outcome.must_print_error()?;
    require(error.code == 1, "code 1", outcome.in_short())
}
