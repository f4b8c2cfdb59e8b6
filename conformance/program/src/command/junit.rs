//! `--junit`: prints a JUnit document for continuous integration, one suite for each group and topic.

use std::time::Duration;

use cni_conformance_program::suite::CaseEnding;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::tally::FinishedCase;

/// Writes the document.
pub fn document(done: &[FinishedCase], elapsed: Duration) -> Result<String, String> {
    let mut report = Report::new("cni-conformance");
    report.set_time(elapsed);
    for of_suite in done.chunk_by(|a, b| suite_of(a) == suite_of(b)) {
        let mut suite = TestSuite::new(of_suite.first().map(suite_of).unwrap_or_default());
        suite.add_test_cases(of_suite.iter().map(test_case));
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|error| format!("write JUnit's XML: {error}"))
}

fn suite_of(done: &FinishedCase) -> String {
    format!("{}/{}", done.case.template.group(), done.case.template.topic)
}

fn test_case(done: &FinishedCase) -> TestCase {
    let status = match &done.ending {
        CaseEnding::Passed => TestCaseStatus::success(),
        CaseEnding::Failed(mismatch) => {
            let text = format!("expected: {}\ngot: {}", mismatch.expected, mismatch.got);
            non_success(NonSuccessKind::Failure, done.case.template.says, &text)
        }
        CaseEnding::Broken { problem } => non_success(NonSuccessKind::Error, "the case could not do its work", problem),
        CaseEnding::NotRun { reason } => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(reason.as_str());
            status
        }
    };
    let mut case = TestCase::new(done.case.name(), status);
    case.set_classname(suite_of(done)).set_time(done.elapsed);
    case
}

fn non_success(kind: NonSuccessKind, message: &str, text: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(message).set_description(text);
    status
}
