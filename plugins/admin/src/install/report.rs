//! What `install` and `uninstall` print.

use std::path::Path;

use cni_builtin::OUR_VERSION;

use super::folder::OWN_FOLDER;
use super::plan::{InstallChange, Present, UninstallStep, is_current};

/// What was installed, or would be, and how to go back.
pub fn installed(folder: &Path, changes: &[InstallChange], is_dry: bool) -> String {
    let (shown, count) = (folder.display(), changes.len());
    if is_current(changes) {
        return format!("{shown} has cni-plugins {OUR_VERSION} already, under {count} names\n");
    }
    let will = if is_dry { "would be " } else { "" };
    let mut report = format!("cni-plugins {OUR_VERSION} {will}installed in {shown}, under {count} names\n");
    for (what, names) in groups(changes.iter().map(|change| (change_text(change), change.name))) {
        report.push_str(&format!("  {what}: {}\n", names.join(" ")));
    }
    report.push_str(&format!("to go back: {shown}/cni-plugins uninstall {shown}\n"));
    let kept = if is_dry { "would be" } else { "are" };
    if changes.iter().any(InstallChange::keeps) {
        report.push_str(&format!("  puts back the plugins of others, which {kept} kept in {shown}/{OWN_FOLDER}\n"));
    }
    for old in old_releases(changes) {
        report.push_str(&format!("  or, to release {old}: run `cni-plugins install {shown}` of that release\n"));
    }
    report
}

/// What was removed, or would be.
pub fn uninstalled(folder: &Path, removals: &[UninstallStep], is_dry: bool) -> String {
    let shown = folder.display();
    if removals.is_empty() {
        return format!("{shown} has no file of cni-plugins\n");
    }
    let will = if is_dry { "would be " } else { "" };
    let mut report = format!("cni-plugins {will}removed from {shown}\n");
    let outcome = |removal: &UninstallStep| if removal.restores { "put back as before" } else { "removed" };
    for (what, names) in groups(removals.iter().map(|removal| (outcome(removal).to_owned(), removal.name.as_str()))) {
        report.push_str(&format!("  {what}: {}\n", names.join(" ")));
    }
    report
}

/// What becomes of a name.
fn change_text(InstallChange { name, was }: &InstallChange) -> String {
    match was {
        Present::Nothing => "new".to_owned(),
        Present::Current => "unchanged".to_owned(),
        Present::Ours(version) => format!("in place of cni-plugins {version}"),
        Present::Other(about) if about.starts_with("CNI ") => {
            format!("in place of {}", about.replace(&format!(" {name} "), " "))
        }
        Present::Other(about) => format!("in place of a file of others ({about})"),
    }
}

/// The names with each text, in the order in which the texts first occur.
fn groups<'a>(pairs: impl Iterator<Item = (String, &'a str)>) -> Vec<(String, Vec<&'a str>)> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (text, name) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name),
            None => groups.push((text, vec![name])),
        }
    }
    groups
}

fn old_releases(changes: &[InstallChange]) -> Vec<&str> {
    let mut versions: Vec<&str> = changes
        .iter()
        .filter_map(|change| match &change.was {
            Present::Ours(version) if version != OUR_VERSION => Some(version.as_str()),
            Present::Ours(_) | Present::Nothing | Present::Current | Present::Other(_) => None,
        })
        .collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}
