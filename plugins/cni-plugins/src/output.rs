//! What the administrator's tool prints.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// Prints the answer to a request; returns the exit status.
pub fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("cni-plugins: failed to write to standard output: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Prints an error on standard error. A failure to do so cannot be reported anywhere.
pub fn complain(text: &str) {
    let _lost = io::stderr().write_all(text.as_bytes());
}
