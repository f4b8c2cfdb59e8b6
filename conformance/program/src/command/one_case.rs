//! Runs one case in its own process, which prints a JSON report and nothing else.

use std::panic;

use cni_conformance::transcript;
use cni_conformance_program::suite::{Case, CaseEnding, CaseReport, PrivateHost, cases_of};

use crate::command_line::CaseOptions;
use crate::isolated::SHOWN;
use crate::{PASSED, UNABLE, isolated, preflight};

/// Runs the case, and returns the exit status.
pub fn run(options: &CaseOptions) -> u8 {
    // Whatever goes wrong from here on is told in the report, also where panics cannot be caught.
    panic::set_hook(Box::new(|problem| {
        tell(CaseEnding::Broken { problem: problem.to_string() });
        std::process::exit(i32::from(PASSED));
    }));
    transcript::start();
    match find(options) {
        Ok(case) => {
            tell(judge(&case));
            PASSED
        }
        Err(problem) => {
            eprintln!("{problem}");
            UNABLE
        }
    }
}

fn find(options: &CaseOptions) -> Result<Case, String> {
    isolated::settle().map_err(|error| format!("make a process namespace of its own: {error}"))?;
    if let Some(folder) = &options.shown {
        isolated::show(folder).map_err(|error| format!("show {} at {SHOWN}: {error}", folder.display()))?;
    }
    let subjects: Vec<_> = preflight::subjects(&options.config)?
        .into_iter()
        .filter(|subject| options.name.contains(&format!("/{}/", subject.plugin)))
        .collect();
    let found = cases_of(&subjects).into_iter().find(|case| case.name() == options.name);
    found.ok_or_else(|| format!("there is no case {}", options.name))
}

fn judge(case: &Case) -> CaseEnding {
    let host = PrivateHost::new(case.subject.clone(), case.version);
    match (case.template.run)(&host) {
        Ok(()) => CaseEnding::Passed,
        Err(mismatch) => CaseEnding::Failed(mismatch),
    }
}

fn tell(ending: CaseEnding) {
    let report = CaseReport { ending, calls: transcript::so_far() };
    match serde_json::to_string(&report) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("write a report: {error}"),
    }
}
