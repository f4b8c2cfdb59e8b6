//! `cni-plugins metrics`: what Prometheus wants to know of this host, as OpenMetrics text.
//!
//! `addresses.rs` and `attachments.rs` count what `inventory.rs` has found, `text.rs` writes it down. What cannot be read is
//! described on standard error and counted, and the rest is shown all the same.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use cni_core::error::Failure as _;
use cni_files::FileError;

mod addresses;
mod attachments;
mod file;
mod text;

use crate::inventory::{Depth, Inventory, NOT_LOOKED_FOR};
use crate::last_repair::LastRepair;
use crate::output::{failed, print, report};
use crate::refusal::refusal;
use crate::scope::Scope;
use text::{Metric, Sample};

const VERB: &str = "cni-plugins metrics";

/// The options of `metrics`.
#[derive(Args, Debug)]
pub struct MetricsOptions {
    #[command(flatten)]
    scope: Scope,
    /// replace this file in one step, in place of printing: *.prom for node_exporter
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// Counts what there is, and prints or writes it.
pub fn run(options: &MetricsOptions) -> ExitCode {
    if let Some(sentence) = refusal() {
        return failed(VERB, &sentence);
    }
    let found = Inventory::observe(&options.scope, Depth::Rules);
    let (metrics, problems) = collect(&found, LastRepair::read());
    report(VERB, &problems);
    match deliver(&text::document(&metrics), options.output.as_deref()) {
        ExitCode::SUCCESS if !problems.is_empty() => ExitCode::FAILURE,
        other => other,
    }
}

fn deliver(text: &str, output: Option<&Path>) -> ExitCode {
    match output.map_or_else(|| Ok(print(text)), |path| file::replace(path, text).map(|()| ExitCode::SUCCESS)) {
        Ok(status) => status,
        Err(error) => failed(VERB, &described(&error)),
    }
}

fn described(error: &FileError) -> String {
    format!("{error}: {}", error.details())
}

/// All metrics, and what could not be found out.
fn collect(found: &Inventory, last: Result<Option<LastRepair>, FileError>) -> (Vec<Metric>, Vec<String>) {
    let mut problems = found.unknown.clone();
    let mut metrics = addresses::metrics(&found.pools, &mut problems);
    metrics.extend(attachments::metrics(found));
    let last = last.unwrap_or_else(|error| {
        problems.push(described(&error));
        None
    });
    metrics.extend(of_repair(last));
    metrics.push(Metric {
        samples: vec![Sample::count([], problems.iter().filter(|problem| *problem != NOT_LOOKED_FOR).count())],
        ..Metric::new(
            "cni_unreadable_sources",
            "Caches, files, leases and records that could not be read for these metrics.",
        )
    });
    (metrics, problems)
}

fn of_repair(last: Option<LastRepair>) -> [Metric; 2] {
    let seconds = |run: LastRepair| Sample { labels: Vec::new(), value: run.ended.as_secs().into() };
    let failures = |run: LastRepair| Sample::count([], run.failures);
    [
        Metric {
            unit: Some("seconds"),
            samples: last.map(seconds).into_iter().collect(),
            ..Metric::new(
                "cni_last_repair_timestamp_seconds",
                "When cni-plugins repair last ended, over all networks, as time since 1970; missing if it has not run since the boot.",
            )
        },
        Metric {
            samples: last.map(failures).into_iter().collect(),
            ..Metric::new(
                "cni_last_repair_failures",
                "Attachments, caches and files that the last repair could not repair or read.",
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_counted_and_the_rest_is_there() {
        let torn = FileError::of("read", Path::new("/run/x"))(std::io::Error::other("torn"));
        let (metrics, problems) = collect(&Inventory::default(), Err(torn));
        let text = text::document(&metrics);
        assert_eq!(problems, ["failed to read /run/x: torn"]);
        assert!(text.contains("\ncni_unreadable_sources 1\n"), "{text}");
        assert!(text.contains("\ncni_contested_host_ports 0\n"), "{text}");
    }
}
