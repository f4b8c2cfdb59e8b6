//! `requirements`: prints what the SPEC requires, which program can break it, and how many cases cover it.

use std::collections::BTreeMap;

use cni_conformance_program::suite::{Breaker, Requirement, cases_of, requirement};
use serde::Serialize;

use crate::command_line::RequirementsOptions;
use crate::preflight::{self, Problem};

#[derive(Serialize)]
struct RequirementRow {
    id: &'static str,
    says: &'static str,
    /// `plugin` or `runtime`.
    can_be_broken_by: &'static str,
    passages: Vec<PassageRow>,
    cases: usize,
}

#[derive(Serialize)]
struct PassageRow {
    version: &'static str,
    level: String,
    section: &'static str,
}

/// Prints the table.
pub fn run(options: &RequirementsOptions) -> Result<(), Problem> {
    let rows = rows()?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())?);
    } else {
        rows.iter().for_each(print);
    }
    Ok(())
}

fn rows() -> Result<Vec<RequirementRow>, Problem> {
    let mut cases: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases_of(&preflight::subjects(&[])?) {
        for name in case.template.requirements() {
            *cases.entry(name).or_default() += 1;
        }
    }
    Ok(requirement::all().map(|requirement| row(requirement, &cases)).collect())
}

fn row(requirement: &Requirement, cases: &BTreeMap<&str, usize>) -> RequirementRow {
    let Requirement { id, says, breaker, passages } = requirement;
    let can_be_broken_by = match breaker {
        Breaker::Plugin => "plugin",
        Breaker::Runtime => "runtime",
    };
    let passages = passages.iter().map(|passage| PassageRow {
        version: passage.version.as_str(),
        level: passage.obligation.to_string(),
        section: passage.section,
    });
    RequirementRow {
        id,
        says,
        can_be_broken_by,
        passages: passages.collect(),
        cases: cases.get(id).copied().unwrap_or_default(),
    }
}

fn print(row: &RequirementRow) {
    println!("{}: {}", row.id, row.says);
    for PassageRow { version, level, section } in &row.passages {
        println!("    {level} of {version}, \"{section}\"");
    }
    println!("    can be broken by a {}; {} cases", row.can_be_broken_by, row.cases);
}
