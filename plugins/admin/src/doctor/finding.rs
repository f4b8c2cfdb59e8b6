//! What the doctor has to say.

use std::fmt;

use cni_linux::output::one_line;
use serde_json::{Value, json};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It is as it should be.
    Fine,
    /// It is worth knowing.
    Note,
    /// It keeps containers from their network.
    Problem,
}

impl Severity {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub topic: &'static str,
    pub severity: Severity,
    /// What is so.
    pub says: String,
    /// What helps, where something has to be done.
    pub cure: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn fine(topic: &'static str, says: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Fine, says: says.into(), cure: None }
    }

    /// Worth knowing.
    pub fn note(topic: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Note, says: says.into(), cure: Some(cure.into()) }
    }

    /// A problem.
    pub fn problem(topic: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Problem, says: says.into(), cure: Some(cure.into()) }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let Self { topic, severity, says, cure } = self;
        json!({"topic": topic, "severity": severity.word(), "says": says, "cure": cure})
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, severity, says, cure } = self;
        writeln!(f, "{:8} {topic}: {}", severity.word(), one_line(says))?;
        cure.iter().try_for_each(|cure| writeln!(f, "{:8} -> {}", "", one_line(cure)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_its_cure_another() {
        assert_eq!(Finding::fine("kernel", "Linux").to_string(), "ok       kernel: Linux\n");
        assert_eq!(Finding::problem("a", "b\nb", "c\nc").to_string(), "problem  a: b\\u000ab\n         -> c\\u000ac\n");
    }
}
