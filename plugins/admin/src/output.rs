//! What the verbs print.

use std::process::ExitCode;

use cni_linux::output::{complain, write};

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
