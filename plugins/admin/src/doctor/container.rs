//! `cni-plugins doctor CONTAINER`: what one container has, where it is kept, and what is wrong with it.

use std::process::ExitCode;

mod about;
mod faults;
mod name;
mod records;
mod rules;
mod text;

use super::finding::Severity;
use crate::inventory::{Depth, Inventory};
use crate::output::{FOUND, failed, print, report};
use crate::refusal::refusal;
use crate::repair::Tools;
use crate::scope::Scope;
use about::About;
use name::{Known, find};
use text::{json_text, plain_text};

const VERB: &str = "cni-plugins doctor";

/// Looks at the attachments of a container, and prints what was found.
pub fn run(name: &str, scope: &Scope, is_json: bool) -> ExitCode {
    if let Some(sentence) = refusal() {
        return failed(VERB, &sentence);
    }
    let mut found = Inventory::observe(scope, Depth::Lives);
    report(VERB, &found.unknown);
    let container = match find(name, &known(&found), name::is_same_file) {
        Ok(container) => container.to_owned(),
        Err(error) => return failed(VERB, &error.to_string()),
    };
    let tools = Tools::default();
    let own = found.attached.iter_mut().filter(|one| one.cached.at.container.as_str() == container);
    own.for_each(|one| one.examine(&tools));
    let about = match About::observe(&container, &found) {
        Ok(about) => about,
        Err(problem) => return failed(VERB, &problem),
    };
    let mut findings = faults::findings(&container, &found);
    findings.iter_mut().for_each(|one| one.cure = one.cure.as_ref().map(|cure| scope.advised(cure)));
    let printed = print(&if is_json { json_text(&about, &findings) } else { plain_text(&about, &findings) });
    match printed {
        ExitCode::SUCCESS if !found.unknown.is_empty() => ExitCode::FAILURE,
        ExitCode::SUCCESS if findings.iter().any(|one| one.severity == Severity::Problem) => ExitCode::from(FOUND),
        other => other,
    }
}

fn known(found: &Inventory) -> Vec<Known<'_>> {
    let attached = found.attached.iter().map(|one| &one.cached);
    let all = attached.chain(found.left.iter().map(|left| &left.cached));
    all.map(|cached| Known { container: cached.at.container.as_str(), netns: cached.netns.as_deref() }).collect()
}
