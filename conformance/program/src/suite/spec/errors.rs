//! Error objects, in situations that every plugin can get into.

use serde_json::json;

use crate::suite::case::{Needs, Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use cni_conformance::Verb;
use cni_conformance::keys::with;
use cni_conformance::plugin::Outcome;

const fn case(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Errors, what, says, run).needs(Needs::Version).once()
}

pub const CASES: &[Template] = &[
    case("status", "every error is another exit status than 0", |host| {
        each(host, |outcome| outcome.must_fail().map(drop))
    })
    .spec(&["error-status"]),
    case("object", "every error is one object with a number `code` and a text `msg`, and nothing beside it", |host| {
        each(host, |outcome| outcome.must_print_error().map(drop))
    })
    .spec(&["error-object"]),
    case("version", "every error object tells the cniVersion", |host| {
        each(host, |outcome| {
            let error = outcome.must_print_error()?;
            require(error.object["cniVersion"].is_string(), "`cniVersion` in the error object", outcome.in_short())
        })
    })
    .spec(&["error-version"]),
    case("codes", "a code below 100 is one of the SPEC's", |host| each(host, known_code)).spec(&["error-codes"]),
    case("decoding", "standard input that is no JSON is an error of decoding, or one of the plugin's own", decoding)
        .spec(&["error-codes"]),
];

/// The codes that the SPEC gives a meaning, with those of STATUS.
const KNOWN: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 11, 50, 51];

/// Judges what the plugin says to some requests that cannot be.
fn each(host: &PrivateHost, judge: impl Fn(&Outcome) -> CaseVerdict) -> CaseVerdict {
    let wrong = [
        host.call(Verb::Add).stdin(b"{"),
        host.call(Verb::Add).stdin(b""),
        host.call(Verb::Add).without_env("CNI_CONTAINERID"),
        host.call(Verb::Check).config(&with(&host.config(), &json!({"cniVersion": "99.0.0"}))),
        host.call(Verb::Del).config(&with(&host.config(), &json!({"cniVersion": "99.0.0"}))),
        host.call(Verb::Add).config(&with(&host.config(), &json!({"prevResult": "no result", "ipam": "no object"}))),
    ];
    wrong.iter().try_for_each(|call| judge(&call.run()))
}

fn known_code(outcome: &Outcome) -> CaseVerdict {
    let error = outcome.must_print_error()?;
    let known = error.code >= 100 || KNOWN.contains(&error.code);
    require(known, "a code of the SPEC's, or one from 100 on", outcome.in_short())
}

fn decoding(host: &PrivateHost) -> CaseVerdict {
    for input in ["{", "", "[]", "\"text\"", "{\"cniVersion\": "] {
        let outcome = host.call(Verb::Add).stdin(input.as_bytes()).run();
        let error = outcome.must_print_error()?;
        let fits = error.code >= 100 || [5, 6, 7].contains(&error.code);
        require(fits, format!("code 5, 6, 7 or one from 100 on for {input:?}"), outcome.in_short())?;
    }
    Ok(())
}
