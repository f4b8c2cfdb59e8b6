//! `cni-plugins metrics`: what Prometheus wants to know of this host, as OpenMetrics text.
//!
//! `addresses.rs` and `attachments.rs` count what `inventory.rs` has found, `text.rs` writes it down. What cannot be read is
//! described on standard error and counted, and the rest is shown all the same.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use cni_core::error::Failure as _;
use cni_files::FileError;
use cni_linux::output::complain;

mod addresses;
mod attachments;
mod file;
mod text;

use crate::inventory::{Depth, Inventory};
use crate::last_repair::LastRepair;
use crate::output::{print, report};
use crate::refusal::refusal;
use crate::scope::Scope;
use text::{Metric, Sample};

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
        return failed(&sentence);
    }
    let found = match Inventory::observe(&options.scope, Depth::Rules) {
        Ok(found) => found,
        Err(error) => return failed(&format!("failed to read the cache: {error}")),
    };
    let (metrics, problems) = collect(&found, LastRepair::read());
    report("cni-plugins metrics", &problems);
    match deliver(&text::document(&metrics), options.output.as_deref()) {
        ExitCode::SUCCESS if !problems.is_empty() => ExitCode::FAILURE,
        other => other,
    }
}

fn deliver(text: &str, output: Option<&Path>) -> ExitCode {
    match output.map_or_else(|| Ok(print(text)), |path| file::replace(path, text).map(|()| ExitCode::SUCCESS)) {
        Ok(status) => status,
        Err(error) => failed(&described(&error)),
    }
}

fn failed(problem: &str) -> ExitCode {
    complain(&format!("cni-plugins metrics: {problem}\n"));
    ExitCode::FAILURE
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
        samples: vec![Sample::count([], problems.len())],
        ..Metric::new("cni_unreadable_sources", "Files, leases and records that could not be read for these metrics.")
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
            ..Metric::new("cni_last_repair_failures", "Attachments that the last repair could not repair.")
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    fn text_of(last: Result<Option<LastRepair>, FileError>) -> (String, Vec<String>) {
        let (metrics, problems) = collect(&Inventory::default(), last);
        (text::document(&metrics), problems)
    }

    #[test]
    fn a_host_where_nothing_has_happened_has_no_sample_of_a_repair() {
        let (text, problems) = text_of(Ok(None));
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!((samples, problems), (vec!["cni_contested_host_ports 0", "cni_unreadable_sources 0"], Vec::new()));
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn the_last_repair_is_a_time_in_seconds() {
        let (text, _) = text_of(Ok(Some(LastRepair { ended: Duration::from_secs(1_700_000_000), failures: 2 })));
        for line in [
            "# UNIT cni_last_repair_timestamp_seconds seconds",
            "cni_last_repair_timestamp_seconds 1700000000",
            "cni_last_repair_failures 2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_the_rest_is_there() {
        let (text, problems) = text_of(Err(FileError::of("read", Path::new("/run/x"))(io::Error::other("torn"))));
        assert_eq!(problems, ["failed to read /run/x: torn"]);
        assert!(text.contains("\ncni_unreadable_sources 1\n"), "{text}");
        assert!(text.contains("\ncni_contested_host_ports 0\n"), "{text}");
    }
}
