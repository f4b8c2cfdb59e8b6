//! `cni-plugins gc`: removes what belongs to no living namespace.
//!
//! Each container that is gone is deleted by the DEL of every plugin of its list, as its runtime ought to have done. DEL
//! concerns one container only, so nothing of those that live, or that come at the same moment, is touched. The
//! command GC of CNI would need the list of all that live, which may be longer when it arrives.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use cni_core::names::Attachment;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::calls::PluginFolders;
use crate::error_line::error_line;
use crate::inventory::{Depth, Inventory, Scope, Source};
use crate::life::refusal;
use crate::output::{FOUND, print};
use crate::progress::Progress;
use cni_linux::output::{complain, one_line};

mod removal;

use removal::{Fate, Remnant, Remover};

/// The options of `gc`.
#[derive(Args, Debug)]
pub struct Options {
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
pub fn run(options: &Options) -> ExitCode {
    match refusal() {
        Ok(None) => {}
        Ok(Some(sentence)) => return refused(sentence),
        Err(error) => return refused(&error_line(&error)),
    }
    let mut found = match Inventory::observe(&options.scope, Depth::Lives) {
        Ok(found) => found,
        Err(error) => return refused(&format!("failed to read the cache: {error}")),
    };
    let problems = std::mem::take(&mut found.unknown);
    let remnants = Remnant::all(found);
    let fates: Vec<Fate> = if options.remove {
        let folders = match PluginFolders::new(options.plugin_dir.as_deref()) {
            Ok(folders) => folders,
            Err(error) => return refused(&format!("failed to find the folder of plugins: {error}")),
        };
        match Remover::new(folders) {
            Ok(mut remover) => remove_all(&remnants, &mut remover),
            Err(error) => return refused(&error_line(&error)),
        }
    } else {
        remnants.iter().map(Fate::of_found).collect()
    };
    problems.iter().for_each(|problem| complain(&format!("cni-plugins gc: {problem}\n")));
    let text = if options.json { json_text(&remnants, &fates) } else { lines(&remnants, &fates) };
    status(&fates, !problems.is_empty(), print(&text))
}

fn remove_all(remnants: &[Remnant], remover: &mut Remover) -> Vec<Fate> {
    let mut progress = Progress::new(remnants.len());
    let remove = |(done, one)| {
        progress.show(done);
        remover.remove(one)
    };
    remnants.iter().enumerate().map(remove).collect()
}

fn refused(problem: &str) -> ExitCode {
    complain(&format!("cni-plugins gc: {problem}\n"));
    ExitCode::FAILURE
}

fn status(fates: &[Fate], is_incomplete: bool, printed: ExitCode) -> ExitCode {
    let is_failure = is_incomplete || fates.iter().any(|fate| matches!(fate, Fate::Failed(_)));
    let is_left = |fate: &Fate| matches!(fate, Fate::Found | Fate::Unclear(_));
    match printed {
        ExitCode::SUCCESS if is_failure => ExitCode::FAILURE,
        ExitCode::SUCCESS if fates.iter().any(is_left) => ExitCode::from(FOUND),
        other => other,
    }
}

impl Remnant {
    /// What is known of it, for people.
    fn kind(&self) -> &'static str {
        match (self, self.life()) {
            (Self::Known(_), Life::Dead) => "its namespace is gone",
            (Self::Known(_), Life::Alive | Life::Unknown(_)) => "in the cache",
            (Self::Other(left), _) => match left.source {
                Source::Leases { .. } => "not in the cache, and its addresses are unused",
                Source::Record => "not in the cache, and its namespace is gone",
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

fn lines(remnants: &[Remnant], fates: &[Fate]) -> String {
    if remnants.is_empty() {
        return "nothing is left over\n".to_owned();
    }
    let line = |(one, fate): (&Remnant, &Fate)| {
        let Attachment { network, container, ifname } = &one.cached().at;
        let details = Some(one.details()).filter(|details| !details.is_empty());
        let details = details.map_or_else(String::new, |details| format!(" ({details})"));
        one_line(&format!("{network} {container} {ifname}: {}{details}", said(fate))) + "\n"
    };
    remnants.iter().zip(fates).map(line).collect()
}

fn said(fate: &Fate) -> String {
    match fate {
        Fate::Found => "left over".to_owned(),
        Fate::Removed => "removed".to_owned(),
        Fate::Kept(why) => format!("kept: {why}"),
        Fate::Unclear(why) => format!("unclear: {why}"),
        Fate::Failed(failures) => format!("failed: {}", failures.join("; ")),
    }
}

fn json_text(remnants: &[Remnant], fates: &[Fate]) -> String {
    let entries: Vec<_> = remnants.iter().zip(fates).map(|(one, fate)| entry(one, fate)).collect();
    format!("{:#}\n", json!({ "leftOver": entries }))
}

fn entry(one: &Remnant, fate: &Fate) -> Value {
    let (outcome, problems) = match fate {
        Fate::Found => ("found", Vec::new()),
        Fate::Removed => ("removed", Vec::new()),
        Fate::Kept(why) => ("kept", vec![why.clone()]),
        Fate::Unclear(why) => ("unclear", vec![why.clone()]),
        Fate::Failed(failures) => ("failed", failures.clone()),
    };
    let Attachment { network, container, ifname } = &one.cached().at;
    json!({
        "network": network.as_str(), "container": container.as_str(), "ifname": ifname.as_str(),
        "addresses": one.addresses(), "reason": one.kind(), "outcome": outcome, "problems": problems,
    })
}
