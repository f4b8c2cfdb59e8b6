//! `cni-plugins check`: what is wrong with network configurations. This file reads them and prints; `cni-check` judges by the
//! rows of the plugins, and then each plugin by its own code.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Args, ValueHint};
use cni_check::{Finding, Judgement, Network, judge, schema};
use cni_plugin::run::Plugin;
use serde_json::{Value, json};

use crate::calls::status_request;
use crate::network_lists::{all_files, named, plugins, read};
use crate::output::{joined, print, report, status};

/// The folder in which Nomad looks for configurations.
const NOMAD: &str = "/opt/cni/config";

/// The options of `check`.
#[derive(Args, Debug)]
pub struct CheckOptions {
    /// files with configurations, and folders that hold some (*.conflist, *.conf, *.json)
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// the runtime that reads them; that of files in /opt/cni/config is nomad
    #[arg(long, value_name = "NAME", value_parser = ["nomad"])]
    runtime: Option<String>,
    /// print one JSON document, for programs
    #[arg(long)]
    json: bool,
}

/// Judges every file, and prints what was found.
pub fn run(options: &CheckOptions) -> ExitCode {
    let (mut files, mut failed) = (Vec::new(), false);
    let mut fail = |path: &Path, error: io::Error| {
        report("cni-plugins check", [format!("{}: {error}", path.display())]);
        failed = true;
    };
    for path in &options.paths {
        listed(path).map_or_else(|error| fail(path, error), |found| files.extend(found));
    }
    let mut found = Vec::new();
    let mut networks: Vec<(&Path, Network)> = Vec::new();
    for file in &files {
        match read(file) {
            Ok(text) => {
                let Judgement { mut findings, network } = judge(&text);
                findings.extend(refusals(&text, &findings));
                let is_for_nomad =
                    options.runtime.is_some() || fs::canonicalize(file).is_ok_and(|file| file.starts_with(NOMAD));
                findings.extend(network.loopback_down().filter(|_| is_for_nomad));
                findings.extend(networks.iter().flat_map(|earlier| compared((file, &network), earlier)));
                networks.push((file, network));
                found.extend(findings.into_iter().map(|finding| (file.as_path(), finding)));
            }
            Err(error) => fail(file, error),
        }
    }
    let printed = print(&if options.json { json_text(&found, files.len()) } else { text(&found, files.len()) });
    status(printed, failed, !found.is_empty())
}

/// Prints the JSON Schema of configurations.
pub fn print_schema() -> ExitCode {
    print(&format!("{:#}\n", schema::schema()))
}

/// A file itself, or the files of a folder that libcni reads.
fn listed(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    fs::read_dir(path).map(|_| all_files(Some(path)))
}

/// Compares a network with one of an earlier file.
fn compared((file, network): (&Path, &Network), (earlier, other): &(&Path, Network)) -> Vec<Finding> {
    if network.name == other.name && !network.name.is_empty() && file.parent() == earlier.parent() {
        let wrong = format!("the network {:?} is also in {}", network.name, earlier.display());
        let instead = "give each file its own name of a network: runtimes use the first file alone".to_owned();
        return vec![Finding::of_key("list", "name", wrong, instead)];
    }
    network.conflicts(other)
}

/// What plugins, and the IPAM plugins that they call, refuse of their configurations, if the rows of the plugins have found nothing in them.
fn refusals(text: &str, found: &[Finding]) -> Vec<Finding> {
    let list: Value = serde_json::from_str(text).unwrap_or_default();
    let is_list = list.get("plugins").is_some();
    let refused = |(at, config): (usize, &Value)| {
        let kind = config.get("type")?.as_str()?;
        let place = if is_list { format!("plugins[{at}] {kind}") } else { format!("plugin {kind}") };
        let of_kind = |kind: &str| cni_builtin::plugin(kind).filter(|plugin| plugin.kind() == kind);
        let plugin = of_kind(kind).filter(|_| found.iter().all(|finding| finding.plugin != place))?;
        let has_ranges = config.pointer("/capabilities/ipRanges") != Some(&Value::Bool(true));
        let ipam = config.pointer("/ipam/type").and_then(Value::as_str).filter(|_| has_ranges).and_then(of_kind);
        let examine =
            |plugin: &'static dyn Plugin| plugin.examine(&status_request(named(&list, config), plugin).ok()?).err();
        let (kind, error) = [plugin].into_iter().chain(ipam).find_map(|one| Some((one.kind(), examine(one)?)))?;
        let instead = Some(joined(&error.details())).filter(|details| !details.is_empty());
        let instead = instead.unwrap_or_else(|| format!("look up the key on the page of {kind}"));
        Some(Finding::new(place, joined(&error.to_string()), instead))
    };
    plugins(&list).iter().enumerate().filter_map(refused).collect()
}

/// Two lines for each finding: what is wrong, and what to write instead.
fn text(found: &[(&Path, Finding)], files: usize) -> String {
    let lines = found.iter().map(|(file, Finding { plugin, key, wrong, instead })| {
        let place = if key.is_empty() { plugin.clone() } else { format!("{plugin}, {key}") };
        format!("{}\n    {}\n", plain(&format!("{}: {place}: {wrong}", file.display())), plain(instead))
    });
    let lines: String = lines.collect();
    format!("{lines}findings: {}, files: {files}\n", found.len())
}

/// The text of a file must not control the terminal.
fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

fn json_text(found: &[(&Path, Finding)], files: usize) -> String {
    let entry = |(file, Finding { plugin, key, wrong, instead }): &(&Path, Finding)| json!({"file": file.display().to_string(), "plugin": plugin, "key": key, "wrong": wrong, "instead": instead});
    format!("{:#}\n", json!({"files": files, "findings": found.iter().map(entry).collect::<Vec<_>>()}))
}
