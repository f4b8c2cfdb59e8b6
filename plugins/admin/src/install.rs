//! `cni-plugins install` and `uninstall`: put this program into a folder of plugins under every name, and take it away again.
//!
//! What has to be done follows from what the folder contains, without effects; [`folder`] does it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use cni_builtin::{OUR_VERSION, PLUGINS};
use cni_core::error::Error;

use crate::output::print;

mod folder;

use folder::{Folder, InstallChange, OWN_FOLDER, Present, UninstallStep};

/// The folder in which most runtimes look for plugins.
const DEFAULT_FOLDER: &str = "/opt/cni/bin";

/// The name of the administrator's tool. It is installed with every selection, since only it can uninstall.
const TOOL: &str = "cni-plugins";

/// The options of `install`.
#[derive(Args, Debug)]
pub struct InstallOptions {
    #[command(flatten)]
    target: RemovalOptions,
    /// install these plugins, separated by commas, and cni-plugins itself
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_hint = ValueHint::Other, value_parser = plugin_name)]
    only: Option<Vec<&'static str>>,
}

/// The options of `uninstall`.
#[derive(Args, Debug)]
pub struct RemovalOptions {
    /// the folder
    #[arg(value_name = "DIR", default_value = DEFAULT_FOLDER, value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Installs this program.
pub fn install(InstallOptions { target, only }: &InstallOptions) -> Result<ExitCode, String> {
    install_into(&target.folder, &selected(only.as_deref()), target.dry_run)
        .map_err(|error| error.in_full())
        .map(|report| print(&report))
}

/// Removes what `install` has put into a folder.
pub fn uninstall(options: &RemovalOptions) -> Result<ExitCode, String> {
    uninstall_from(&options.folder, options.dry_run).map_err(|error| error.in_full()).map(|report| print(&report))
}

fn install_into(path: &Path, names: &[&'static str], is_dry: bool) -> Result<String, Error> {
    let program = folder::this_program()?;
    let folder = Folder::new(path);
    let change = |name: &&'static str| Ok(InstallChange { name, was: folder.present(name, &program)? });
    let decide = || names.iter().map(change).collect::<Result<Vec<_>, Error>>();
    let mut changes = decide()?;
    if !is_dry && !is_current(&changes) {
        changes = folder.locked(decide, |changes| folder.install(&program, changes))?;
    }
    Ok(installed(path, &changes, is_dry))
}

fn uninstall_from(path: &Path, is_dry: bool) -> Result<String, Error> {
    let folder = Folder::new(path);
    let decide = || Ok(plan_removals(folder.ours()?, &folder.kept()?));
    let mut removals = decide()?;
    if !is_dry && !removals.is_empty() {
        removals = folder.locked(decide, |removals| folder.uninstall(removals))?;
    }
    Ok(uninstalled(path, &removals, is_dry))
}

fn plugin_name(name: &str) -> Result<&'static str, &'static str> {
    let mut kinds = PLUGINS.iter().map(|plugin| plugin.kind());
    kinds.find(|kind| *kind == name).ok_or("there is no such plugin; `cni-plugins help` lists them")
}

/// The names to install, each once; all of them without a selection. The tool comes last: once it is there, the rest is.
fn selected(only: Option<&[&'static str]>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> =
        only.map_or_else(|| PLUGINS.iter().map(|plugin| plugin.kind()).collect(), <[_]>::to_vec);
    names.sort_unstable();
    names.dedup();
    names.push(TOOL);
    names
}

/// What `uninstall` does with the files of ours, given the names of the files that were kept. The tool goes last, so that
/// `uninstall` can be repeated after a failure.
fn plan_removals(mut ours: Vec<String>, kept: &[String]) -> Vec<UninstallStep> {
    ours.sort_by_key(|name| (name == TOOL, name.clone()));
    ours.into_iter().map(|name| UninstallStep { restores: kept.contains(&name), name }).collect()
}

/// Whether every name is this very program already.
fn is_current(changes: &[InstallChange]) -> bool {
    changes.iter().all(|change| change.was == Present::Current)
}

/// What was installed, or would be, and how to go back.
fn installed(folder: &Path, changes: &[InstallChange], is_dry: bool) -> String {
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
fn uninstalled(folder: &Path, removals: &[UninstallStep], is_dry: bool) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uninstall_restores_what_was_kept_and_removes_the_tool_last() {
        let ours = ["cni-plugins", "dummy", "bridge"].map(str::to_owned).to_vec();
        let removals = plan_removals(ours, &["bridge".to_owned(), "calico".to_owned()]);
        let shown: Vec<_> = removals.iter().map(|one| (one.name.as_str(), one.restores)).collect();
        assert_eq!(shown, [("bridge", true), ("dummy", false), ("cni-plugins", false)]);
    }
}
