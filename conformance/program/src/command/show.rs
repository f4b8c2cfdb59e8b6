//! Prints rows while cases run, and a summary.

mod paint;
mod summary;
mod verbose;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use cni_conformance_program::suite::{Case, Template};

use crate::command_line::RunOptions;
use crate::tally::{FinishedCase, Tally};

use paint::{Colour, Painter};

/// The output of a run for people; with `--json` and `--junit`, just how far it is.
pub struct RunOutput<'o> {
    options: &'o RunOptions,
    folder: &'o Path,
    painter: Painter,
    total: usize,
    failed: usize,
    /// The cases of a row that is not whole yet.
    row: TemplateRow,
    /// The number of cases of each row that have not ended.
    expected: Vec<usize>,
    heading: String,
}

/// The cases of one template.
#[derive(Default)]
struct TemplateRow {
    tally: Tally,
    failed: Vec<String>,
}

impl<'o> RunOutput<'o> {
    /// Says what is about to run.
    pub fn new(options: &'o RunOptions, folder: &'o Path, cases: &[Case], jobs: usize) -> Self {
        let rows = cases.chunk_by(|a, b| std::ptr::eq(a.template, b.template));
        let show = Self {
            options,
            folder,
            painter: Painter::for_stdout(),
            total: cases.len(),
            failed: 0,
            row: TemplateRow::default(),
            expected: rows.map(<[Case]>::len).rev().collect(),
            heading: String::new(),
        };
        if show.for_people() {
            println!("{} cases for the plugins in {}, {jobs} at a time", cases.len(), folder.display());
        }
        show
    }

    fn for_people(&self) -> bool {
        !self.options.json && !self.options.junit
    }

    /// Prints the progress, and the last case, on a terminal.
    pub fn progress(&self, finished: usize, last: &Case) {
        let mut stderr = std::io::stderr();
        if !stderr.is_terminal() {
            return;
        }
        let failed = if self.failed == 0 { String::new() } else { format!(", {} failed", self.failed) };
        let line = format!("\r\x1b[K{finished} of {}{failed}  {}", self.total, last.name());
        let line = if finished == self.total { "\r\x1b[K".to_owned() } else { line };
        // A terminal that cannot be written to has nobody before it.
        drop(write!(stderr, "{line}").and_then(|()| stderr.flush()));
    }

    /// Takes the next case in the order of the list.
    pub fn case(&mut self, done: &FinishedCase) {
        self.failed += usize::from(done.failed());
        if !self.for_people() {
            return;
        }
        if self.options.verbose {
            verbose::print(&self.painter, done);
        }
        self.row.tally.count(done);
        if done.failed() {
            self.row.failed.push(format!("{}/{}", done.case.subject.plugin, done.case.version));
        }
        if self.expected.last().is_some_and(|expected| *expected == self.row.tally.total()) {
            self.expected.pop();
            self.print_row(done.case.template);
        }
    }

    fn print_row(&mut self, template: &Template) {
        let row = std::mem::take(&mut self.row);
        let heading = format!("{}/{}", template.group(), template.topic);
        if heading != self.heading {
            self.clear_progress();
            println!("\n{}", self.painter.paint(Colour::Bold, &heading));
            self.heading = heading;
        }
        self.clear_progress();
        let Tally { passed, failed, not_run } = row.tally;
        let word = match (passed, failed) {
            (0, 0) => self.painter.paint(Colour::Yellow, "not run"),
            (_, 0) => self.painter.paint(Colour::Green, "ok     "),
            _ => self.painter.paint(Colour::Red, "FAILED "),
        };
        let mut line = format!("  {word} {:<36} {:>3} passed", template.what, passed);
        if failed > 0 {
            line.push_str(&self.painter.paint(Colour::Red, &format!(", {failed} failed")));
        }
        if not_run > 0 {
            line.push_str(&self.painter.paint(Colour::Yellow, &format!(", {not_run} not run")));
        }
        println!("{line}");
        if failed > 0 {
            println!("          {}", row.failed.join(" "));
        }
    }

    fn clear_progress(&self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }

    /// Says what all of it comes to.
    pub fn summary(&self, done: &[FinishedCase], elapsed: Duration) {
        summary::print(&self.painter, self.folder, done, elapsed);
    }
}
