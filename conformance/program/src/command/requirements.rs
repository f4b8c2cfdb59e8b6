//! `requirements`: prints what the SPEC requires, and which cases show it.

use cni_conformance::case::requirement::{self, Requirement};
use serde::Serialize;

use crate::command_line::RequirementsOptions;
use crate::embedded::cases;
use crate::preflight::Problem;

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    requirement: &'static Requirement,
    /// `plugin` or `runtime`.
    can_be_broken_by: &'static str,
    cases: Vec<String>,
}

/// Prints the table.
pub fn run(options: &RequirementsOptions) -> Result<(), Problem> {
    let cases = cases();
    let shows = |requirement: &Requirement| {
        let showing = cases.iter().filter(|case| case.spec.iter().any(|name| name == requirement.name));
        showing.map(|case| case.name.clone()).collect()
    };
    let rows: Vec<Row> = requirement::all()
        .iter()
        .map(|requirement| Row {
            requirement,
            can_be_broken_by: if requirement.is_for_plugins() { "plugin" } else { "runtime" },
            cases: shows(requirement),
        })
        .collect();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())?);
    } else {
        rows.iter().for_each(print);
    }
    Ok(())
}

fn print(row: &Row) {
    println!("{}: {}", row.requirement.name, row.requirement.says);
    for passage in &row.requirement.passages {
        println!("    {} of {}, \"{}\"", passage.obligation, passage.version, passage.section);
    }
    let cases = if row.cases.is_empty() { "no plugin can break it".to_owned() } else { row.cases.join(" ") };
    println!("    {cases}");
}
