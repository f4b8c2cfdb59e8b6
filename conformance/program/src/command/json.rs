//! `--json`: prints one document.

use std::path::Path;
use std::time::Duration;

use cni_conformance::case::requirement::Passage;
use cni_conformance::transcript::Exchange;
use serde::Serialize;

use crate::report::{Done, Ending, Tally};

#[derive(Serialize)]
struct RunDocument<'d> {
    plugins: String,
    #[serde(flatten)]
    tally: Tally,
    seconds: f64,
    cases: Vec<CaseEntry<'d>>,
}

#[derive(Serialize)]
struct CaseEntry<'d> {
    name: String,
    says: &'d str,
    /// For cases that are carried out for each plugin.
    plugin: Option<&'d str>,
    version: Option<&'d str>,
    requirements: &'d [String],
    passages: Vec<&'static Passage>,
    /// What the reference does otherwise.
    reference: Option<&'d str>,
    #[serde(flatten)]
    ending: &'d Ending,
    seconds: f64,
    calls: &'d [Exchange],
}

/// Writes the document.
pub fn document(folder: &Path, all: &[Done], elapsed: Duration) -> serde_json::Result<String> {
    let (plugins, seconds) = (folder.display().to_string(), elapsed.as_secs_f64());
    let cases = all.iter().map(entry).collect();
    serde_json::to_string_pretty(&RunDocument { plugins, tally: Tally::of(all), seconds, cases })
}

fn entry(done: &Done) -> CaseEntry<'_> {
    let (case, subject) = (&done.variant.case, done.variant.subject.as_ref());
    CaseEntry {
        name: done.variant.name(),
        says: &case.about,
        plugin: subject.map(|(subject, _)| subject.plugin.as_str()),
        version: subject.map(|(_, version)| *version),
        requirements: &case.spec,
        passages: done.passages(),
        reference: case.differs.as_deref(),
        ending: &done.ending,
        seconds: done.elapsed.as_secs_f64(),
        calls: &done.calls,
    }
}
