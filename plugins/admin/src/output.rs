//! What the verbs print, and how they end.

use std::path::PathBuf;
use std::process::ExitCode;

use cni_linux::output::{complain, one_line, write};

/// The exit status of a verb that has found what it looks for.
pub const FOUND: u8 = 3;

/// Prints problems of a verb on standard error, each in one line: they name files, whose names may contain anything.
pub fn report<T: AsRef<str>>(verb: &str, problems: impl IntoIterator<Item = T>) {
    problems.into_iter().for_each(|problem| complain(&format!("{verb}: {}\n", one_line(problem.as_ref()))));
}

/// Prints why a verb has failed; returns the exit status.
pub fn failed(verb: &str, problem: &str) -> ExitCode {
    report(verb, [problem]);
    ExitCode::FAILURE
}

/// Renders paths for a JSON document, which cannot hold a path that is not UTF-8.
pub fn paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

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
