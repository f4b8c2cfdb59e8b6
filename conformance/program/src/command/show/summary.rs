//! Prints the summary: failures, grouped by what they have in common, cases that were not run and why, and the counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cni_conformance_program::suite::{CaseEnding, Obligation};

use crate::tally::{FinishedCase, Tally};

use super::paint::{Colour, Painter};

/// The largest number of cases of a kind that are named; further ones are counted.
const NAMED: usize = 12;

/// The largest number of lines of a text.
const LINES: usize = 8;

/// Prints it.
pub fn print(painter: &Painter, folder: &Path, done: &[FinishedCase], elapsed: Duration) {
    let failed: Vec<&FinishedCase> = done.iter().filter(|done| done.failed()).collect();
    if !failed.is_empty() {
        println!("\n{}", painter.paint(Colour::Bold, "What to look at"));
    }
    for of_template in failed.chunk_by(|a, b| std::ptr::eq(a.case.template, b.case.template)) {
        print_template(painter, folder, of_template);
    }
    if !failed.is_empty() {
        print_failed_by_plugin(painter, &failed);
    }
    print_not_run(painter, done);
    print_counts(painter, done, elapsed);
}

/// Prints the failures of one template: those that look alike, once.
fn print_template(painter: &Painter, folder: &Path, failed: &[&FinishedCase]) {
    let Some(first) = failed.first() else { return };
    let template = first.case.template;
    let title = format!("{}/{}/{}", template.group(), template.topic, template.what);
    println!("\n{}: {}", painter.paint(Colour::Red, &title), template.says);
    println!("  from      {}", first.case.source());
    let mut alike: BTreeMap<(String, String), Vec<&FinishedCase>> = BTreeMap::new();
    for done in failed {
        alike.entry(expected_and_got(done)).or_default().push(done);
    }
    for ((expected, got), cases) in alike {
        print_alike(folder, &expected, &got, &cases);
    }
}

fn print_alike(folder: &Path, expected: &str, got: &str, cases: &[&FinishedCase]) {
    let names: Vec<String> =
        cases.iter().take(NAMED).map(|done| format!("{}/{}", done.case.subject.plugin, done.case.version)).collect();
    let more = cases.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    println!("  cases     {}{more}", names.join(" "));
    println!("  expected  {}", indented(expected));
    println!("  got       {}", indented(got));
    if let Some(first) = cases.first() {
        println!("  again     {}", again(folder, first));
    }
}

fn expected_and_got(done: &FinishedCase) -> (String, String) {
    match &done.ending {
        CaseEnding::Failed(mismatch) => (mismatch.expected.clone(), mismatch.got.clone()),
        CaseEnding::Broken { problem } => ("a case that can do its work".to_owned(), problem.clone()),
        CaseEnding::Passed | CaseEnding::NotRun { .. } => (String::new(), String::new()),
    }
}

/// Sets the lines of a text below each other, so many that the next failure is in sight; `--verbose` shows all.
fn indented(text: &str) -> String {
    let mut lines: Vec<&str> = text.trim_end().lines().collect();
    let more = lines.len().saturating_sub(LINES);
    let rest = format!("and {more} more lines");
    if more > 0 {
        lines.truncate(LINES);
        lines.push(&rest);
    }
    lines.join("\n            ")
}

/// Returns the command that runs one case again and shows all of it.
pub fn again(folder: &Path, done: &FinishedCase) -> String {
    format!("cni-conformance run --plugins {} --verbose --filter {}", folder.display(), done.case.name())
}

fn print_not_run(painter: &Painter, done: &[FinishedCase]) {
    let mut reasons: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for case in done {
        if let CaseEnding::NotRun { reason } = &case.ending {
            *reasons.entry(reason).or_default().entry(&case.case.subject.plugin).or_default() += 1;
        }
    }
    if !reasons.is_empty() {
        println!("\n{}", painter.paint(Colour::Yellow, "Not run"));
    }
    for (reason, plugins) in reasons {
        println!("  {:>4}  {reason}", plugins.values().sum::<usize>());
        println!("        {}", counted(&plugins));
    }
}

/// Names with how many cases each has.
fn counted(names: &BTreeMap<&str, usize>) -> String {
    names.iter().map(|(name, cases)| format!("{name} ({cases})")).collect::<Vec<_>>().join(", ")
}

/// Prints the failures by plugin, and the obligation of the SPEC.
fn print_failed_by_plugin(painter: &Painter, failed: &[&FinishedCase]) {
    let mut plugins: BTreeMap<&str, usize> = BTreeMap::new();
    for done in failed {
        *plugins.entry(&done.case.subject.plugin).or_default() += 1;
    }
    let insisted = failed.iter().filter_map(|done| done.case.passage());
    let musts = insisted.filter(|passage| passage.obligation == Obligation::Must).count();
    println!("\n{}", painter.paint(Colour::Bold, "Failed"));
    println!("  {} cases; {musts} of them are about a MUST of the SPEC", failed.len());
    println!("  {}", counted(&plugins));
}

fn print_counts(painter: &Painter, done: &[FinishedCase], elapsed: Duration) {
    let tally = Tally::of(done);
    let colour = if tally.failed > 0 { Colour::Red } else { Colour::Green };
    let Tally { passed, failed, not_run } = tally;
    let text = format!(
        "{} cases: {passed} passed, {failed} failed, {not_run} not run, in {:.1} s",
        tally.total(),
        elapsed.as_secs_f64()
    );
    println!("\n{}", painter.paint(colour, &text));
}
