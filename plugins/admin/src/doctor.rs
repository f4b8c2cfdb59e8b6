//! `cni-plugins doctor`: what keeps plugins from working on this host, and what helps; or the same for one container.
//!
//! Each topic has a file: it reads what it needs, and a function without effects judges it. Whatever a plugin can say of
//! itself by STATUS is asked of the plugin.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fmt, fs};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use cni_core::error::Error;
use cni_core::names::IfName;
use cni_linux::host::LinuxHost;
use cni_linux::output::one_line;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::calls::neutral_request;
use crate::command_line::Scope;
use crate::contested::{self, ContestedPort};
use crate::inventory::{Attached, Inventory};
use crate::output::{print, status};
use crate::result_cache;

mod configurations;
mod container;
mod filter;
mod flannel;
mod folders;
mod kernel;
mod permissions;

/// The options of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorOptions {
    /// look at this container, and not at the host: its ID or the beginning of it, or the name or path of its namespace
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::Other, value_parser = NonEmptyStringValueParser::new())]
    container: Option<String>,
    /// only the container's attachments to this network
    #[arg(long, requires = "container", value_name = "NAME", value_hint = ValueHint::Other)]
    network: Option<String>,
    /// the runtime's cache directory, which contains a folder "results"; default /var/lib/cni
    #[arg(long, requires = "container", value_name = "DIR", value_hint = ValueHint::DirPath)]
    cache_dir: Option<PathBuf>,
    /// a folder with network configurations; default /etc/cni/net.d and /opt/cni/config
    #[arg(long, conflicts_with = "container", value_name = "DIR", value_hint = ValueHint::DirPath)]
    config_dir: Option<PathBuf>,
    /// print one JSON document, for programs
    #[arg(long)]
    json: bool,
}

/// Looks at the host, or at one container, and prints what was found.
pub fn run(options: &DoctorOptions) -> Result<ExitCode, String> {
    if let Some(name) = &options.container {
        let scope = Scope { network: options.network.clone(), cache_dir: options.cache_dir.clone() };
        return container::run(name, &scope, options.json);
    }
    let runtimes = folders::runtimes();
    let found = Inventory::observe(&Scope::default());
    let findings: Vec<Finding> = [
        permissions::look(),
        kernel::look(),
        filter::look(),
        kernel::parameters(&found),
        folders::look(&runtimes),
        configurations::look(options.config_dir.as_deref(), &runtimes),
        flannel::look(options.config_dir.as_deref()),
        caches(&found),
        contested::find(&found).iter().map(contested_port).collect(),
        loopback_down(found.attached.iter()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let printed = print(&if options.json { json_text(&findings) } else { text(&findings) });
    Ok(status(printed, false, has_problem(&findings)))
}

fn has_problem(findings: &[Finding]) -> bool {
    findings.iter().any(|one| one.severity == Severity::Problem)
}

/// Names the caches that were read, and the caches, leases and records that could not be read.
fn caches(found: &Inventory) -> Vec<Finding> {
    let read = (!found.caches.is_empty()).then(|| Finding::fine("caches", result_cache::names(&found.caches)));
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let cure = if is_root {
        "list, gc, metrics and repair need it: make it readable; remove a cache or a file of it only if no container needs it"
    } else {
        "run doctor as root"
    };
    let unread =
        found.unknown.iter().map(|one| Finding::note("caches", format!("not everything is known: {one}"), cure));
    read.into_iter().chain(unread).collect()
}

/// The findings, and how many of them are problems.
fn text(findings: &[Finding]) -> String {
    let count = |severity: Severity| findings.iter().filter(|one| one.severity == severity).count();
    let lines: String = findings.iter().map(ToString::to_string).collect();
    format!("{lines}{} problems, {} notes\n", count(Severity::Problem), count(Severity::Note))
}

fn json_text(findings: &[Finding]) -> String {
    format!("{:#}\n", json!({"findings": findings.iter().map(Finding::json).collect::<Vec<_>>()}))
}

/// A port that a dead container keeps is one that nobody can reach.
fn contested_port(port: &ContestedPort<'_>) -> Finding {
    let of_kind = if port.holder_is_dead { Finding::problem } else { Finding::note };
    of_kind("ports", port.to_string(), port.cure())
}

/// The running containers whose `lo` is down: most runtimes set it up, Nomad leaves it to the plugin loopback. One whose namespace cannot be
/// entered has no finding.
fn loopback_down<'a>(attached: impl Iterator<Item = &'a Attached>) -> Vec<Finding> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for one in attached.filter(|one| one.life == Life::Alive) {
        let Some(netns) = one.cached.netns.as_deref().filter(|netns| seen.insert(*netns)) else { continue };
        if is_down(netns).unwrap_or(false) {
            let says =
                format!("container {}: lo is down, so it does not reach its own addresses", one.cached.at.container);
            let cure = format!(
                "nsenter --net={netns} ip link set lo up; for new containers begin the list of network {} with {{\"type\": \"loopback\"}}",
                one.cached.at.network
            );
            found.push(Finding::note("loopback", says, cure));
        }
    }
    found
}

/// Whether `lo` is down in a namespace with a process. Without one, nobody has had the time to set it up.
fn is_down(netns: &str) -> Result<bool, Error> {
    let mut host = LinuxHost::new(&neutral_request()?);
    let host: &mut dyn Host = &mut host;
    host.enter(netns)?;
    if host.link(Ns::Container, &IfName::lo())?.is_none_or(|lo| lo.up) {
        return Ok(false);
    }
    let identity = host.namespaces().identity(Ns::Container)?;
    Ok(identity.map_or(Ok(None), |identity| host.namespaces().path_by_process(&identity))?.is_some())
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// It is as it should be.
    Fine,
    /// It is worth knowing.
    Note,
    /// It keeps containers from their network.
    Problem,
}

impl Severity {
    const fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    topic: &'static str,
    severity: Severity,
    /// What is so.
    says: String,
    /// What helps, where something has to be done.
    cure: Option<String>,
}

impl Finding {
    /// All is well.
    fn fine(topic: &'static str, says: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Fine, says: says.into(), cure: None }
    }

    /// Worth knowing.
    fn note(topic: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Note, says: says.into(), cure: Some(cure.into()) }
    }

    /// A problem.
    fn problem(topic: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Problem, says: says.into(), cure: Some(cure.into()) }
    }

    /// For programs.
    fn json(&self) -> Value {
        let Self { topic, severity, says, cure } = self;
        json!({"topic": topic, "severity": severity.word(), "says": says, "cure": cure})
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, severity, says, cure } = self;
        writeln!(f, "{:8} {topic}: {}", severity.word(), one_line(says))?;
        cure.iter().try_for_each(|cure| writeln!(f, "{:8} -> {}", "", one_line(cure)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_its_cure_another() {
        assert_eq!(Finding::fine("kernel", "Linux").to_string(), "ok       kernel: Linux\n");
        assert_eq!(Finding::problem("a", "b\nb", "c\nc").to_string(), "problem  a: b\\u000ab\n         -> c\\u000ac\n");
    }
}
