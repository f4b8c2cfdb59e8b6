//! What the verbs print, and how they end.

use std::process::ExitCode;

use cni_linux::output::{complain, write};

/// The exit status of a verb that has found what it looks for.
pub const FOUND: u8 = 3;

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
