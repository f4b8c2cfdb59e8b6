//! `cni-plugins metrics`: what Prometheus wants to know of this host, as OpenMetrics text.
//!
//! `addresses.rs` and `attachments.rs` count what `inventory.rs` has found. What cannot be read is
//! described on standard error and counted, and the rest is shown all the same.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use cni_core::error::Error;
use cni_files::{Draft, FileError, PrivateDirectory, RUN_DIRECTORY};

use crate::inventory::{Inventory, NOT_LOOKED_FOR};
use crate::life::require_host;
use crate::output::{print, report, status};
use crate::repair::LastRepair;
use crate::result_cache::Scope;

mod addresses;
mod attachments;
mod text;

use text::{Metric, Sample, document};

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
pub fn run(options: &MetricsOptions) -> Result<ExitCode, String> {
    require_host()?;
    let found = Inventory::observe_rules(&options.scope);
    let (metrics, problems) = collect(&found, LastRepair::read(&PrivateDirectory::new(RUN_DIRECTORY)));
    report("cni-plugins metrics", &problems);
    let text = document(&metrics);
    let done = match &options.output {
        None => print(&text),
        Some(path) => {
            replace(path, &text).map_err(|error| Error::from(error).in_full())?;
            ExitCode::SUCCESS
        }
    };
    Ok(status(done, !problems.is_empty(), false))
}

/// All metrics, and what could not be found out.
fn collect(found: &Inventory, last: Result<Option<LastRepair>, FileError>) -> (Vec<Metric>, Vec<String>) {
    let mut problems = found.unknown.clone();
    let mut metrics = addresses::metrics(&found.pools, &mut problems);
    metrics.extend(attachments::metrics(found));
    let last = last.unwrap_or_else(|error| {
        problems.push(Error::from(error).in_full());
        None
    });
    metrics.push(Metric::new(
        "cni_last_repair_timestamp_seconds",
        "When cni-plugins repair last ended, over all networks, as time since 1970; missing if it has not run since the boot.",
        last.map(|run| Sample { labels: Vec::new(), value: run.ended.as_secs().into() }),
    ));
    metrics.push(Metric::new(
        "cni_last_repair_failures",
        "Attachments, caches and files that the last repair could not repair or read.",
        last.map(|run| Sample::count([], run.failures)),
    ));
    metrics.push(Metric::new(
        "cni_unreadable_sources",
        "Caches, files, leases and records that could not be read for these metrics.",
        [Sample::count([], problems.iter().filter(|problem| *problem != NOT_LOOKED_FOR).count())],
    ));
    (metrics, problems)
}

/// node_exporter is not root.
const MODE: u32 = 0o644;

/// Replaces the file that node_exporter reads, or creates it: it sees the old text or the new one, never half of it. Its folder must exist.
///
/// # Errors
/// [`FileError`] names the file. Then it is as it was.
fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(FileError::of("replace", path)(io::Error::other("it is not a regular file")));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Draft::create(folder, text.as_bytes(), MODE)?.replace(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_cannot_be_read_is_counted_and_the_rest_is_there() {
        let torn = FileError::of("read", Path::new("/run/x"))(std::io::Error::other("torn"));
        let (metrics, problems) = collect(&Inventory::default(), Err(torn));
        let text = document(&metrics);
        assert_eq!(problems, ["failed to read /run/x: torn"]);
        assert!(text.contains("\ncni_unreadable_sources 1\n"), "{text}");
        assert!(text.contains("\ncni_contested_host_ports 0\n"), "{text}");
    }

    #[test]
    fn a_file_is_replaced_and_others_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cni.prom");
        for text in ["a long text\n", "short\n"] {
            replace(&path, text).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1, "no draft is left");
    }

    #[test]
    fn what_is_no_file_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        symlink("/dev/null", &link).expect("a link");
        for path in [&link, Path::new("/dev/null"), folder.path()] {
            let error = replace(path, "x").expect_err("refused");
            assert_eq!(error.to_string(), format!("failed to replace {}", path.display()));
            assert_eq!(error.source.to_string(), "it is not a regular file");
        }
        let error = replace(&folder.path().join("none/x"), "x").expect_err("no folder");
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    }
}
