//! `--junit`: prints a JUnit document for continuous integration, one suite for each folder of cases.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::report::{Done, Ending};

/// Writes the document.
pub fn document(all: &[Done], elapsed: Duration) -> Result<String, String> {
    let mut report = Report::new("cni-conformance");
    report.set_time(elapsed);
    for of_suite in all.chunk_by(|a, b| suite_of(a) == suite_of(b)) {
        let mut suite = TestSuite::new(of_suite.first().map(suite_of).unwrap_or_default());
        suite.add_test_cases(of_suite.iter().map(test_case));
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|error| format!("write JUnit's XML: {error}"))
}

fn suite_of(done: &Done) -> &str {
    done.variant.case.name.split('/').next().unwrap_or_default()
}

fn test_case(done: &Done) -> TestCase {
    let skipped = |text: &str| {
        let mut status = TestCaseStatus::skipped();
        status.set_message(text);
        status
    };
    let status = match &done.ending {
        Ending::Passed => TestCaseStatus::success(),
        Ending::Failed(failure) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(done.variant.case.about.as_str()).set_description(failure.to_string());
            status
        }
        Ending::Differs(_) => {
            skipped(&format!("differs: {}", done.variant.case.differs.as_deref().unwrap_or_default()))
        }
        Ending::NotHad { reason } => skipped(reason),
    };
    let mut case = TestCase::new(done.variant.name(), status);
    case.set_classname(suite_of(done)).set_time(done.elapsed);
    case
}
