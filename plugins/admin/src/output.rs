//! What the verbs print, and how they end.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cni_core::error::Error;
use cni_linux::output::{complain, one_line, write};

/// The exit status of a verb that has found what it looks for.
const FOUND: u8 = 3;

/// Prints the answer to a request; returns the exit status.
pub fn print(text: &str) -> ExitCode {
    match write(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("cni-plugins: failed to write to standard output: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The exit status of a verb that has printed its answer.
pub fn status(printed: ExitCode, has_failed: bool, has_found: bool) -> ExitCode {
    match printed {
        ExitCode::SUCCESS if has_failed => ExitCode::FAILURE,
        ExitCode::SUCCESS if has_found => ExitCode::from(FOUND),
        other => other,
    }
}

/// Prints why a verb has failed; returns the exit status.
pub fn failed(verb: &str, problem: &str) -> ExitCode {
    report(verb, [problem]);
    ExitCode::FAILURE
}

/// Prints problems of a verb on standard error, each in one line: they name files, whose names may contain anything.
pub fn report<T: AsRef<str>>(verb: &str, problems: impl IntoIterator<Item = T>) {
    problems.into_iter().for_each(|problem| complain(&format!("{verb}: {}\n", one_line(problem.as_ref()))));
}

/// Renders paths for a JSON document, which cannot hold a path that is not UTF-8.
pub fn paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// Returns an error with its causes, on one line.
pub fn error_line(error: &Error) -> String {
    joined(&error.in_full())
}

/// Joins the lines that programs and the kernel print.
pub fn joined(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ")
}

/// How long no progress is shown: most calls end sooner.
const SILENCE: Duration = Duration::from_secs(1);

/// Moves to the beginning of the line and erases it (`console_codes(4)`).
const ERASE: &str = "\r\x1b[K";

/// How far a verb has come: on a terminal, a line on standard error that is replaced as the work goes on, and removed at its end.
pub struct Progress {
    total: usize,
    started: Instant,
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    /// Begins the work on so many things.
    pub fn new(total: usize) -> Self {
        Self { total, started: Instant::now(), is_terminal: stderr().is_terminal(), is_shown: false }
    }

    /// Shows that so many are done.
    pub fn show(&mut self, done: usize) {
        if self.is_terminal && is_due(self.started.elapsed()) {
            self.is_shown = true;
            show(&format!("{ERASE}{done} of {}", self.total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            show(ERASE);
        }
    }
}

fn is_due(elapsed: Duration) -> bool {
    elapsed >= SILENCE
}

/// A terminal that is gone needs no progress.
fn show(text: &str) {
    let _lost = stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_shows_nothing() {
        assert!(!is_due(Duration::from_millis(999)));
        assert!(is_due(Duration::from_secs(1)));
    }
}
