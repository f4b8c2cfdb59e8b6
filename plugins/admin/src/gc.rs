//! `cni-plugins gc`: removes what belongs to no living namespace.
//!
//! Each container that is gone is deleted by the DEL of every plugin of its list, as its runtime ought to have done. DEL
//! concerns one container only, so nothing of those that live, or that come at the same moment, is touched. The
//! command GC of CNI would need the list of all that live, which may be longer when it arrives.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use cni_core::names::Attachment;
use cni_linux::output::one_line;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::calls::PluginFolders;
use crate::command_line::Scope;
use crate::inventory::{Depth, Inventory, Source};
use crate::life::{require_host, require_outside};
use crate::output::{error_line, paths, print, report, status};
use crate::result_cache;

mod removal;

use removal::{GcCandidate, RemovalOutcome, Remover};

/// The options of `gc`.
#[derive(Args, Debug)]
pub struct GcOptions {
    /// remove what was found
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    scope: Scope,
    /// where plugins of others are, beside the folder of this program
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    plugin_dir: Option<PathBuf>,
    /// print one JSON document, for programs
    #[arg(long)]
    json: bool,
}

/// Finds what is left over, and removes it when told to.
pub fn run(options: &GcOptions) -> Result<ExitCode, String> {
    require_host()?;
    let mut found = Inventory::observe(&options.scope, Depth::Lives);
    require_outside(found.attached.iter().map(|one| &one.cached))?;
    let (problems, caches) = (std::mem::take(&mut found.unknown), std::mem::take(&mut found.caches));
    let nothing = if problems.is_empty() { "nothing is left over\n" } else { "nothing is known to be left over\n" };
    let candidates = GcCandidate::all(found);
    let outcomes: Vec<RemovalOutcome> = if options.remove {
        let folders = PluginFolders::new(options.plugin_dir.as_deref())
            .map_err(|error| format!("failed to find the folder of plugins: {error}"))?;
        Remover::new(folders, &caches).map_err(|error| error_line(&error))?.remove_all(&candidates)
    } else {
        candidates.iter().map(RemovalOutcome::of_found).collect()
    };
    report("cni-plugins gc", &problems);
    let text = if options.json {
        json_text(&candidates, &outcomes, &caches)
    } else {
        let lines = lines(&candidates, &outcomes);
        (if candidates.is_empty() { nothing.to_owned() } else { lines }) + &result_cache::line(&caches)
    };
    let printed = print(&text);
    let has_failed = outcomes.iter().any(|outcome| matches!(outcome, RemovalOutcome::Failed(_)));
    let is_left = |outcome: &RemovalOutcome| {
        matches!(outcome, RemovalOutcome::Found | RemovalOutcome::Unclear(_) | RemovalOutcome::Busy(_))
    };
    Ok(status(printed, has_failed || !problems.is_empty(), outcomes.iter().any(is_left)))
}

impl GcCandidate {
    /// What is known of it, for people.
    fn kind(&self) -> &'static str {
        match (self, self.life()) {
            (Self::Known(_), Life::Dead) => "its namespace is gone",
            (Self::Known(_), Life::Alive | Life::Unknown(_)) => "in the cache",
            (Self::Other(left), _) => match left.source {
                Source::Leases { .. } => "not in the cache, and its addresses are unused",
                Source::Record | Source::Owner(_) => "not in the cache, and its namespace is gone",
            },
        }
    }

    fn addresses(&self) -> Vec<String> {
        match self {
            Self::Known(one) => one.cached.addresses.iter().map(ToString::to_string).collect(),
            Self::Other(left) => left.addresses().iter().map(ToString::to_string).collect(),
        }
    }

    fn details(&self) -> String {
        let mut details = vec![self.kind().to_owned()];
        if matches!(self.life(), Life::Unknown(_)) {
            details.clear();
        }
        details.extend(Some(self.addresses().join(", ")).filter(|addresses| !addresses.is_empty()));
        details.join("; ")
    }
}

fn lines(candidates: &[GcCandidate], outcomes: &[RemovalOutcome]) -> String {
    let line = |(one, outcome): (&GcCandidate, &RemovalOutcome)| {
        let Attachment { network, container, ifname } = &one.cached().at;
        let details = Some(one.details()).filter(|details| !details.is_empty());
        let details = details.map_or_else(String::new, |details| format!(" ({details})"));
        one_line(&format!("{network} {container} {ifname}: {}{details}", said(outcome))) + "\n"
    };
    candidates.iter().zip(outcomes).map(line).collect()
}

fn said(outcome: &RemovalOutcome) -> String {
    match named(outcome) {
        ("found", _) => "left over".to_owned(),
        (word, problems) if problems.is_empty() => word.to_owned(),
        (word, problems) => format!("{word}: {}", problems.join("; ")),
    }
}

/// The word for an outcome, and what is to be said of it.
fn named(outcome: &RemovalOutcome) -> (&'static str, Vec<String>) {
    match outcome {
        RemovalOutcome::Found => ("found", Vec::new()),
        RemovalOutcome::Removed => ("removed", Vec::new()),
        RemovalOutcome::Kept(why) | RemovalOutcome::Busy(why) => ("kept", vec![why.clone()]),
        RemovalOutcome::Unclear(why) => ("unclear", vec![why.clone()]),
        RemovalOutcome::Failed(failures) => ("failed", failures.clone()),
    }
}

fn json_text(candidates: &[GcCandidate], outcomes: &[RemovalOutcome], caches: &[PathBuf]) -> String {
    let entries: Vec<_> = candidates.iter().zip(outcomes).map(|(one, outcome)| entry(one, outcome)).collect();
    format!("{:#}\n", json!({ "leftOver": entries, "caches": paths(caches) }))
}

fn entry(one: &GcCandidate, outcome: &RemovalOutcome) -> Value {
    let (outcome, problems) = named(outcome);
    let Attachment { network, container, ifname } = &one.cached().at;
    json!({
        "network": network.as_str(), "container": container.as_str(), "ifname": ifname.as_str(),
        "addresses": one.addresses(), "reason": one.kind(), "outcome": outcome, "problems": problems,
    })
}
