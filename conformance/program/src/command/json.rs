//! `--json`: prints one document.

use std::path::Path;
use std::time::Duration;

use cni_conformance::transcript::Exchange;
use cni_conformance_program::suite::{Case, CaseEnding};
use serde::Serialize;

use crate::tally::{FinishedCase, Tally};

#[derive(Serialize)]
struct RunDocument<'d> {
    plugins: String,
    passed: usize,
    failed: usize,
    not_run: usize,
    seconds: f64,
    cases: Vec<CaseEntry<'d>>,
}

#[derive(Serialize)]
struct CaseEntry<'d> {
    name: String,
    group: String,
    topic: String,
    plugin: &'d str,
    version: &'static str,
    says: &'static str,
    source: String,
    /// `MUST` or `SHOULD`, for cases of the SPEC.
    level: Option<String>,
    requirements: &'static [&'static str],
    #[serde(flatten)]
    ending: &'d CaseEnding,
    seconds: f64,
    calls: &'d [Exchange],
}

/// Writes the document.
pub fn document(folder: &Path, done: &[FinishedCase], elapsed: Duration) -> serde_json::Result<String> {
    let Tally { passed, failed, not_run } = Tally::of(done);
    let (plugins, seconds) = (folder.display().to_string(), elapsed.as_secs_f64());
    let cases = done.iter().map(entry).collect();
    serde_json::to_string_pretty(&RunDocument { plugins, passed, failed, not_run, seconds, cases })
}

fn entry(done: &FinishedCase) -> CaseEntry<'_> {
    let FinishedCase { case, ending, calls, elapsed } = done;
    let Case { template, subject, version } = case;
    CaseEntry {
        name: case.name(),
        group: template.group().to_string(),
        topic: template.topic.to_string(),
        plugin: &subject.plugin,
        version: version.as_str(),
        says: template.says,
        source: case.source(),
        level: case.passage().map(|passage| passage.obligation.to_string()),
        requirements: template.requirements(),
        ending,
        seconds: elapsed.as_secs_f64(),
        calls,
    }
}
