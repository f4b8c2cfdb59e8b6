//! Prints what has become of cases, for people.

use std::collections::BTreeMap;
use std::env;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use cni_conformance::case::Variant;
use cni_conformance::transcript::Exchange;

use crate::command_line::RunOptions;
use crate::one_case::enter;
use crate::report::{Done, Ending, Tally};

/// The largest number of runs that are named together.
const NAMED: usize = 12;

/// The largest number of lines of a failure; `--verbose` and `--json` have all.
const LINES: usize = 24;

/// The output of a run: with `--json` and `--junit`, just how far it is.
pub struct Show<'o> {
    options: &'o RunOptions,
    folder: &'o Path,
    total: usize,
    failed: usize,
}

#[derive(Clone, Copy)]
enum Colour {
    Bold = 1,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Paints when standard output is a terminal and `NO_COLOR` is not set.
fn paint(colour: Colour, text: &str) -> String {
    let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !is_unwanted {
        format!("\x1b[{}m{text}\x1b[0m", colour as u8)
    } else {
        text.to_owned()
    }
}

/// What a row is about: the case, or a flavour of it.
fn row_of(done: &Done) -> String {
    if done.variant.subject.is_some() { done.variant.case.name.clone() } else { done.variant.name() }
}

/// The rest of the name: plugin and version.
fn run_of(done: &Done) -> String {
    let subject = done.variant.subject.as_ref();
    subject.map_or_else(|| "once".to_owned(), |(subject, version)| format!("{}/{version}", subject.plugin))
}

impl<'o> Show<'o> {
    /// Says what is about to run.
    pub fn new(options: &'o RunOptions, folder: &'o Path, variants: &[Variant]) -> Self {
        if !options.json && !options.junit {
            println!("{} runs of cases for the plugins in {}", variants.len(), folder.display());
        }
        Self { options, folder, total: variants.len(), failed: 0 }
    }

    /// Prints the progress, and the last case, on a terminal.
    pub fn progress(&mut self, finished: usize, done: &Done) {
        self.failed += usize::from(done.failed());
        let mut stderr = std::io::stderr();
        if !stderr.is_terminal() {
            return;
        }
        let failed = if self.failed == 0 { String::new() } else { format!(", {} failed", self.failed) };
        let line = format!("\r\x1b[K{finished} of {}{failed}  {}", self.total, done.variant.name());
        let line = if finished == self.total { "\r\x1b[K".to_owned() } else { line };
        // A terminal that cannot be written to has nobody before it.
        drop(write!(stderr, "{line}").and_then(|()| stderr.flush()));
    }

    /// Prints a row for each case, the failures, what was not had, and the counts.
    pub fn summary(&self, all: &[Done], elapsed: Duration) {
        if self.options.verbose {
            all.iter().for_each(print_calls);
        }
        all.chunk_by(|a, b| row_of(a) == row_of(b)).for_each(print_row);
        let failed: Vec<&Done> = all.iter().filter(|done| done.failed()).collect();
        if !failed.is_empty() {
            println!("\n{}", paint(Colour::Bold, "Failed"));
        }
        failed.chunk_by(|a, b| row_of(a) == row_of(b)).for_each(|alike| self.print_failures(alike));
        print_reasons("Differs, as is known of the reference", all, |done| match &done.ending {
            Ending::Differs(_) => done.variant.case.differs.as_deref(),
            Ending::Passed | Ending::Failed(_) | Ending::NotHad { .. } => None,
        });
        print_reasons("Not had", all, |done| match &done.ending {
            Ending::NotHad { reason } => Some(reason),
            Ending::Passed | Ending::Failed(_) | Ending::Differs(_) => None,
        });
        print_counts(Tally::of(all), elapsed);
    }

    /// Prints the failures of one case: those that look alike, once.
    fn print_failures(&self, failed: &[&Done]) {
        let Some(first) = failed.first() else { return };
        println!("\n{}: {}", paint(Colour::Red, &row_of(first)), first.variant.case.about);
        if let Some(passage) = first.passages().first() {
            println!("  {} of SPEC {}, \"{}\"", passage.obligation, passage.version, passage.section);
        }
        if let Some(text) = &first.variant.case.differs {
            println!("  the reference: {text}");
        }
        let mut alike: BTreeMap<String, Vec<&Done>> = BTreeMap::new();
        for done in failed {
            let Ending::Failed(failure) = &done.ending else { continue };
            alike.entry(failure.to_string()).or_default().push(done);
        }
        for (text, runs) in alike {
            let names: Vec<String> = runs.iter().take(NAMED).map(|done| run_of(done)).collect();
            let more = runs.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            println!("  {}{more}", names.join(" "));
            println!("    {}", indented(&text));
            let Some(run) = runs.first() else { continue };
            let all = if run.variant.case.spec.is_empty() { " --all" } else { "" };
            let (folder, name) = (self.folder.display(), run.variant.name());
            println!("    again: cni-conformance run --plugins {folder}{all} --verbose {name}");
            for process in runs.iter().filter_map(|run| run.kept) {
                println!("    kept: {}", enter(process));
            }
        }
    }
}

fn print_row(runs: &[Done]) {
    let Some(first) = runs.first() else { return };
    let tally = Tally::of(runs);
    let word = match (tally.all_failed(), tally.passed, tally.differs) {
        (0, 0, 0) => paint(Colour::Yellow, "not had"),
        (0, 0, _) => paint(Colour::Yellow, "differs"),
        (0, ..) => paint(Colour::Green, "ok     "),
        _ => paint(Colour::Red, "FAILED "),
    };
    println!("{word} {:<40} {}", row_of(first), counted(tally));
}

/// The counts that are not zero.
fn counted(tally: Tally) -> String {
    let Tally { passed, failed, failed_must, failed_should, differs, not_had } = tally;
    let counts = [
        (passed, "passed"),
        (failed_must, "failed MUST"),
        (failed_should, "failed SHOULD"),
        (failed, "failed"),
        (differs, "differ"),
        (not_had, "not had"),
    ];
    let shown = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// Sets the lines of a text below each other.
fn indented(text: &str) -> String {
    let mut lines: Vec<&str> = text.trim_end().lines().collect();
    let more = lines.len().saturating_sub(LINES);
    let rest = format!("and {more} more lines");
    if more > 0 {
        lines.truncate(LINES);
        lines.push(&rest);
    }
    lines.join("\n    ")
}

/// Prints which runs have the same reason.
fn print_reasons<'d>(title: &str, all: &'d [Done], reason: impl Fn(&'d Done) -> Option<&'d str>) {
    let mut reasons: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    for done in all {
        if let Some(reason) = reason(done) {
            let about =
                done.variant.subject.as_ref().map_or_else(|| row_of(done), |(subject, _)| subject.plugin.clone());
            *reasons.entry(reason).or_default().entry(about).or_default() += 1;
        }
    }
    if !reasons.is_empty() {
        println!("\n{}", paint(Colour::Yellow, title));
    }
    for (reason, names) in reasons {
        println!("  {:>4}  {reason}", names.values().sum::<usize>());
        let names: Vec<String> = names.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        println!("        {}", names.join(", "));
    }
}

fn print_counts(tally: Tally, elapsed: Duration) {
    let colour = if tally.all_failed() > 0 { Colour::Red } else { Colour::Green };
    let text = format!("{}, in {:.1} s", counted(tally), elapsed.as_secs_f64());
    println!("\n{}", paint(colour, &text));
}

/// Everything that plugins received and printed.
fn print_calls(done: &Done) {
    println!("\n{}", paint(Colour::Bold, &done.variant.name()));
    for Exchange { command, environment, stdin, answer } in &done.calls {
        println!("  {}", command.join(" "));
        for (key, value) in environment {
            println!("    {key}={value}");
        }
        println!("    standard input: {stdin}");
        let Some(answer) = answer else {
            println!("    did not end");
            continue;
        };
        for (name, text) in [("standard output", &answer.stdout), ("standard error", &answer.stderr)] {
            if !text.trim().is_empty() {
                println!("    {name}: {}", text.trim());
            }
        }
        let status = answer.status.map_or_else(|| "a signal".to_owned(), |status| format!("status {status}"));
        println!("    ended with {status} after {} ms", answer.milliseconds);
    }
}
