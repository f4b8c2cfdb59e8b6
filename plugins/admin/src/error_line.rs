//! An error as the verbs print it.

use cni_core::error::Error;

/// Returns an error with its causes, on one line.
pub fn error_line(error: &Error) -> String {
    match error.details() {
        details if details.is_empty() => one_line(&error.to_string()),
        details => one_line(&format!("{error}: {details}")),
    }
}

/// Joins the lines that programs and the kernel print.
pub fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ")
}
