//! The program `cni-conformance`: our plugins pass, Debian's fail as expected, no case passes with every plugin, and a
//! plugin that hangs is reported and killed.

mod cases;
mod expected;
mod foreign;
mod output;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// How many cases wait for the kernel at a time.
const JOBS: &str = "6";

/// Prepares `cni-conformance run`.
fn run(plugins: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    command.arg("run").arg("--plugins").arg(plugins).args(["--jobs", JOBS]).args(arguments);
    command
}

fn finished(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it with `--json`, and returns the document.
fn document(plugins: &Path, arguments: &[&str]) -> Value {
    let output = finished(run(plugins, &[&["--json"], arguments].concat()));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn cases(document: &Value) -> &[Value] {
    document["cases"].as_array().expect("a list of cases")
}

fn word<'d>(case: &'d Value, key: &str) -> &'d str {
    case[key].as_str().unwrap_or_else(|| panic!("no {key} in {case}"))
}
