//! `cni-plugins doctor`: what keeps plugins from working on this host, and what helps; or the same for one container.
//!
//! Each topic has a file: it reads what it needs, and a function without effects judges it. Whatever a plugin can say of
//! itself by STATUS is asked of the plugin.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use serde_json::json;

use crate::contested;
use crate::inventory::Inventory;
use crate::output::{print, status};
use crate::result_cache::{self, Scope};

mod configurations;
mod container;
mod filter;
mod finding;
mod flannel;
mod folders;
mod kernel;
mod permissions;

use finding::{Finding, Severity, contested_port, has_problem, loopback_down};

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
