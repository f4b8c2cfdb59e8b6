//! `cni-plugins metrics`: what Prometheus wants to know of this host, as OpenMetrics text.
//!
//! `addresses.rs` and `attachments.rs` count what `inventory.rs` has found. What cannot be read is
//! described on standard error and counted, and the rest is shown all the same.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use clap::{Args, ValueHint};
use cni_core::error::Error;
use cni_files::{Draft, FileError, PrivateDirectory, RUN_DIRECTORY};
use cni_linux::output::one_line;

use crate::command_line::Scope;
use crate::inventory::{Inventory, NOT_LOOKED_FOR};
use crate::life::require_host;
use crate::output::{print, report, status};

mod addresses;
mod attachments;

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

/// When `repair` ran last over all networks. It leaves a small file beside the records of this boot, so that a host that has just started
/// has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRepair {
    /// When it ended, as time since 1970, in whole seconds.
    ended: Duration,
    /// How many attachments could not be repaired.
    failures: usize,
}

impl LastRepair {
    const FILE: &str = "repaired";

    /// A run that ends now.
    pub fn now(failures: usize) -> Self {
        let ended = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { ended: Duration::from_secs(ended.as_secs()), failures }
    }

    /// Records the run, in place of earlier ones.
    ///
    /// # Errors
    /// Then the record is as it was.
    pub fn write(self, directory: &PrivateDirectory) -> Result<(), FileError> {
        let Self { ended, failures } = self;
        directory.ensure()?;
        Draft::remove_dead(directory.path())?;
        directory.replace_file(directory, Self::FILE, format!("{} {failures}\n", ended.as_secs()).as_bytes())
    }

    /// Reads what the last run has left. Treats a torn file as missing.
    fn read(directory: &PrivateDirectory) -> Result<Option<Self>, FileError> {
        let content = directory.read_file(Self::FILE)?;
        Ok(content.and_then(|content| Self::parse(&String::from_utf8_lossy(&content))))
    }

    fn parse(text: &str) -> Option<Self> {
        let (seconds, failures) = text.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { ended: Duration::from_secs(seconds.parse().ok()?), failures: failures.parse().ok()? })
    }
}

/// A metric, with a sample for each set of labels. All of them are gauges. A name ends with its unit, if it has one.
struct Metric {
    name: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// A value, and what it is about.
struct Sample {
    labels: Vec<(&'static str, String)>,
    /// A range of IPv6 has more addresses than other types can count.
    value: u128,
}

impl Metric {
    fn new(name: &'static str, help: &'static str, samples: impl IntoIterator<Item = Sample>) -> Self {
        Self { name, help, samples: samples.into_iter().collect() }
    }
}

impl Sample {
    /// A number of things.
    fn count<const N: usize>(labels: [(&'static str, &str); N], count: usize) -> Self {
        Self { labels: labels.map(|(name, value)| (name, value.to_owned())).into(), value: count as u128 }
    }
}

/// The whole text. It is also valid in the older text format of Prometheus, where lines that begin with `# UNIT` and `# EOF` are comments.
fn document(metrics: &[Metric]) -> String {
    let mut text: String = metrics.iter().map(ToString::to_string).collect();
    text.push_str("# EOF\n");
    text
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, help, samples } = self;
        writeln!(f, "# HELP {name} {help}\n# TYPE {name} gauge")?;
        if name.ends_with("_seconds") {
            writeln!(f, "# UNIT {name} seconds")?;
        }
        samples.iter().try_for_each(|sample| writeln!(f, "{name}{sample}"))
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { labels, value } = self;
        for (index, (name, value)) in labels.iter().enumerate() {
            f.write_char(if index == 0 { '{' } else { ',' })?;
            write!(f, "{name}=\"{}\"", escaped(value))?;
        }
        if !labels.is_empty() {
            f.write_char('}')?;
        }
        write!(f, " {value}")
    }
}

/// The value of a label. Control characters are replaced by their numbers, as everywhere in the output of this program.
fn escaped(value: &str) -> String {
    one_line(value).replace('\\', r"\\").replace('"', r#"\""#)
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
    fn the_value_of_a_label_can_hold_anything() {
        for (value, text) in [
            ("plain é", "plain é"),
            (r#"a "b""#, r#"a \"b\""#),
            (r"c:\d", r"c:\\d"),
            ("one\ntwo", r"one\\u000atwo"),
            ("\u{1b}[2J\u{9b}", r"\\u001b[2J\\u009b"),
        ] {
            assert_eq!(escaped(value), text);
        }
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

    #[test]
    fn the_last_run_replaces_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = PrivateDirectory::new(folder.path().join("own"));
        assert_eq!(LastRepair::read(&directory).expect("no failure"), None);
        for failures in [0, 17] {
            let run = LastRepair { ended: Duration::from_secs(1_700_000_000), failures };
            run.write(&directory).expect("written");
            assert_eq!(LastRepair::read(&directory).expect("no failure"), Some(run));
        }
        assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 1, "no draft is left");
    }

    #[test]
    fn a_torn_file_is_missing() {
        for torn in ["", "\n", "1700000000", "1700000000 0", "x 0\n", "1700000000 -1\n", "17 0 0\n"] {
            assert_eq!(LastRepair::parse(torn), None, "{torn:?}");
        }
    }
}
