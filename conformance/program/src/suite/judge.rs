//! Compares a plugin's answer with the requirements of a case, and describes differences.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use cni_conformance::plugin::Outcome;

/// What a plugin should have done, and what it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The requirement of the case.
    pub expected: String,
    /// What was found.
    pub got: String,
}

/// The outcome of a comparison.
pub type CaseVerdict = Result<(), Mismatch>;

/// The largest number of characters of an output in a mismatch; `--verbose` shows all of it.
const SHOWN: usize = 600;

/// Requires that something holds; `got` is what was found.
pub fn require(holds: bool, expected: impl Into<String>, got: impl Display) -> CaseVerdict {
    if holds { Ok(()) } else { Err(Mismatch { expected: expected.into(), got: got.to_string() }) }
}

/// Requires that something is as it should be.
pub fn equal<T: PartialEq + Display>(what: &str, expected: T, got: T) -> CaseVerdict {
    let holds = expected == got;
    require(holds, format!("{what}: {expected}"), format!("{what}: {got}"))
}

/// Requires that nothing changed.
pub fn unchanged(what: &str, changes: &[String]) -> CaseVerdict {
    require(changes.is_empty(), what, changes.join("\n"))
}

/// Requirements on an [`Outcome`].
pub trait JudgeOutcome {
    /// Requires exit status 0.
    fn must_succeed(&self) -> Result<&Outcome, Mismatch>;

    /// Requires exit status 0 and nothing on standard output.
    fn must_succeed_silently(&self) -> CaseVerdict;

    /// Requires exit status 0 and one JSON object on standard output.
    fn must_print_object(&self) -> Result<Value, Mismatch>;

    /// Requires another exit status than 0.
    fn must_fail(&self) -> Result<&Outcome, Mismatch>;

    /// Requires an exit status other than 0 and an error object; returns its code and texts.
    fn must_print_error(&self) -> Result<ReportedError, Mismatch>;

    /// One line about how it ended and what it said.
    fn in_short(&self) -> String;
}

/// An error object of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedError {
    /// `code`
    pub code: u64,
    /// `msg` and `details`.
    pub text: String,
    /// The whole object.
    pub object: Value,
}

impl JudgeOutcome for Outcome {
    fn must_succeed(&self) -> Result<&Outcome, Mismatch> {
        require(self.succeeded(), "status 0", self.in_short())?;
        Ok(self)
    }

    fn must_succeed_silently(&self) -> CaseVerdict {
        let holds = self.succeeded() && self.stdout().trim().is_empty();
        require(holds, "status 0 and nothing on standard output", self.in_short())
    }

    fn must_print_object(&self) -> Result<Value, Mismatch> {
        let object =
            serde_json::from_str::<Value>(self.stdout()).ok().filter(|value| self.succeeded() && value.is_object());
        object.ok_or_else(|| Mismatch {
            expected: "status 0 and one JSON object on standard output".to_owned(),
            got: self.in_short(),
        })
    }

    fn must_fail(&self) -> Result<&Outcome, Mismatch> {
        require(self.code().is_some_and(|code| code != 0), "another status than 0", self.in_short())?;
        Ok(self)
    }

    fn must_print_error(&self) -> Result<ReportedError, Mismatch> {
        self.must_fail()?;
        error_object(self.stdout()).ok_or_else(|| Mismatch {
            expected: "an error object with the number `code` and the text `msg` on standard output".to_owned(),
            got: self.in_short(),
        })
    }

    fn in_short(&self) -> String {
        let status = self.code().map_or_else(|| "a signal".to_owned(), |code| format!("status {code}"));
        let mut line = status;
        for (name, text) in [("standard output", self.stdout()), ("standard error", self.stderr())] {
            let text = text.trim();
            if !text.is_empty() {
                line.push_str(&format!(", {name}: {}", shortened(text)));
            }
        }
        line
    }
}

fn error_object(text: &str) -> Option<ReportedError> {
    let object: Value = serde_json::from_str(text).ok()?;
    let details = object.get("details").map_or(Some(""), Value::as_str)?;
    let code = object.get("code")?.as_u64()?;
    let text = format!("{}: {details}", object.get("msg")?.as_str()?);
    Some(ReportedError { code, text, object })
}

/// A text in one line that is not too long: objects without blanks.
fn shortened(text: &str) -> String {
    let dense =
        serde_json::from_str::<Value>(text).map_or_else(|_| text.replace('\n', " ⏎ "), |value| value.to_string());
    match dense.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &dense[..end]),
        None => dense,
    }
}
