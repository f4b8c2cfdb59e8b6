//! `cni-plugins check`: what is wrong with network configurations. This file reads them and prints; `cni-check` judges.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use cni_check::{Finding, NetworkRanges, judge, overlaps, schema};
use serde_json::json;

use crate::output::{FOUND, print, report};

/// The options of `check`.
#[derive(Args, Debug)]
pub struct CheckOptions {
    /// files with configurations, and folders that hold some (*.conflist, *.conf, *.json)
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// print one JSON document, for programs
    #[arg(long)]
    json: bool,
}

/// A finding and its file.
struct FileFinding {
    file: PathBuf,
    finding: Finding,
}

/// Judges every file, and prints what was found.
pub fn run(options: &CheckOptions) -> ExitCode {
    let (mut files, mut failed) = (Vec::new(), false);
    for path in &options.paths {
        match listed(path) {
            Ok(found) => files.extend(found),
            Err(error) => {
                report("cni-plugins check", [format!("{}: {error}", path.display())]);
                failed = true;
            }
        }
    }
    let mut found = Vec::new();
    let mut networks: Vec<NetworkRanges> = Vec::new();
    for file in &files {
        match read(file) {
            Ok(text) => judge_file(file, &text, &mut networks, &mut found),
            Err(error) => {
                report("cni-plugins check", [format!("{}: {error}", file.display())]);
                failed = true;
            }
        }
    }
    let printed = print(&if options.json { json_text(&found, files.len()) } else { text(&found, files.len()) });
    match printed {
        ExitCode::SUCCESS if failed => ExitCode::FAILURE,
        ExitCode::SUCCESS if !found.is_empty() => ExitCode::from(FOUND),
        other => other,
    }
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
    let is_read =
        |path: &PathBuf| path.extension().is_some_and(|end| ["conf", "conflist", "json"].iter().any(|one| end == *one));
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        files.push(entry?.path());
    }
    files.retain(is_read);
    files.sort();
    Ok(files)
}

/// Reads a file. A pipe would be waited for, and a device may never end.
fn read(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.is_file() { fs::read_to_string(file) } else { Err(io::Error::other("not a regular file")) }
}

fn judge_file(file: &Path, text: &str, networks: &mut Vec<NetworkRanges>, found: &mut Vec<FileFinding>) {
    let judgement = judge(text);
    let shared = judgement.ranges.iter().flat_map(|own| networks.iter().filter_map(|earlier| overlaps(earlier, own)));
    let findings = judgement.findings.iter().cloned().chain(shared);
    found.extend(findings.map(|finding| FileFinding { file: file.to_owned(), finding }));
    networks.extend(judgement.ranges);
}

/// Two lines for each finding: what is wrong, and what to write instead.
fn text(found: &[FileFinding], files: usize) -> String {
    let lines = found.iter().map(|FileFinding { file, finding }| {
        let Finding { plugin, key, wrong, instead } = finding;
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

fn json_text(found: &[FileFinding], files: usize) -> String {
    let entry = |FileFinding { file, finding }: &FileFinding| {
        let Finding { plugin, key, wrong, instead } = finding;
        json!({"file": file.display().to_string(), "plugin": plugin, "key": key, "wrong": wrong, "instead": instead})
    };
    format!("{:#}\n", json!({"files": files, "findings": found.iter().map(entry).collect::<Vec<_>>()}))
}
