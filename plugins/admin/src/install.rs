//! `cni-plugins install` and `uninstall`: put this program into a folder of plugins under every name, and take it away again.
//!
//! What has to be done follows from what the folder contains, without effects; [`folder`] does it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::output::{failed, print};
use clap::{Args, ValueHint};
use cni_builtin::PLUGINS;

mod folder;
mod mark;
mod plan;
mod report;

use folder::{Folder, FolderError};
use plan::TOOL;

/// The folder in which most runtimes look for plugins.
const DEFAULT_FOLDER: &str = "/opt/cni/bin";

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
pub fn install(InstallOptions { target, only }: &InstallOptions) -> ExitCode {
    finish("install", install_into(&target.folder, &selected(only.as_deref()), target.dry_run))
}

/// Removes what `install` has put into a folder.
pub fn uninstall(options: &RemovalOptions) -> ExitCode {
    finish("uninstall", uninstall_from(&options.folder, options.dry_run))
}

fn install_into(path: &Path, names: &[&'static str], is_dry: bool) -> Result<String, FolderError> {
    let program = folder::this_program()?;
    let folder = Folder::new(path);
    let decide = || {
        let facts = names.iter().map(|name| Ok((*name, folder.present(name, &program)?)));
        facts.collect::<Result<_, FolderError>>().map(plan::install)
    };
    let mut changes = decide()?;
    if !is_dry && !plan::is_current(&changes) {
        changes = folder.locked(decide, |changes| folder.install(&program, changes))?;
    }
    Ok(report::installed(path, &changes, is_dry))
}

fn uninstall_from(path: &Path, is_dry: bool) -> Result<String, FolderError> {
    let folder = Folder::new(path);
    let decide = || Ok::<_, FolderError>(plan::uninstall(folder.ours()?, &folder.kept()?));
    let mut removals = decide()?;
    if !is_dry && !removals.is_empty() {
        removals = folder.locked(decide, |removals| folder.uninstall(removals))?;
    }
    Ok(report::uninstalled(path, &removals, is_dry))
}

fn finish(verb: &str, done: Result<String, FolderError>) -> ExitCode {
    match done {
        Ok(report) => print(&report),
        Err(error) => failed(&format!("cni-plugins {verb}"), &error.to_string()),
    }
}

/// A name that no plugin has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such plugin; `cni-plugins help` lists them")]
struct UnknownPlugin;

fn plugin_name(name: &str) -> Result<&'static str, UnknownPlugin> {
    PLUGINS.iter().map(|plugin| plugin.kind()).find(|kind| *kind == name).ok_or(UnknownPlugin)
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
