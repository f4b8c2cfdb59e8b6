//! What a trace prints.

use std::process::ExitCode;

use serde_json::json;

use super::case::TraceVerdict;
use super::rendering::RenderedPath;
use crate::output::{FOUND, print};

/// The paths, and the verdict.
#[derive(Clone, Debug)]
pub struct TraceReport {
    pub ways: Vec<RenderedPath>,
    /// What should be known of the trace itself.
    pub notes: Vec<String>,
    pub verdict: TraceVerdict,
}

impl TraceReport {
    /// Prints it; returns the exit status.
    pub fn print(&self, as_json: bool) -> ExitCode {
        match print(&if as_json { self.json() } else { self.text() }) {
            ExitCode::SUCCESS if !self.verdict.arrived => ExitCode::from(FOUND),
            other => other,
        }
    }

    fn text(&self) -> String {
        let ways: String = self.ways.iter().map(RenderedPath::text).collect();
        let notes: String = self.notes.iter().map(|note| format!("note: {note}\n")).collect();
        format!("{ways}{notes}{}\n", self.verdict.text().replace('\n', " "))
    }

    fn json(&self) -> String {
        let Self { ways, notes, verdict } = self;
        let document = json!({
            "packets": ways.iter().map(RenderedPath::json).collect::<Vec<_>>(),
            "notes": notes,
            "arrived": verdict.arrived,
            "why": verdict.why,
            "helps": verdict.helps,
        });
        format!("{document:#}\n")
    }
}
