//! `cni-plugins gc`: removes what belongs to no living namespace.
//!
//! Each container that is gone is deleted by the DEL of every plugin of its list, as its runtime ought to have done. DEL
//! concerns one container only, so nothing of those that live, or that come at the same moment, is touched. The
//! command GC of CNI would need the list of all that live, which may be longer when it arrives.

use std::process::ExitCode;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_linux::plugin_calls::RunningCalls;
use serde_json::json;

use crate::cache::Cached;
use crate::calls::PluginFolder;
use crate::command_line::{FOUND, Words};
use crate::inventory::{Attached, Inventory, Left, Scope};
use crate::output::{complain, print};

/// Something that is left of a container.
enum Remnant<'a> {
    /// An attachment of the cache.
    Known(&'a Attached),
    /// Addresses.
    Leased(&'a Left),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing was asked for.
    Found,
    Removed,
    /// It is not left over any more, for this reason.
    Kept(&'static str),
    /// What has failed.
    Failed(Vec<String>),
}

/// Finds what is left over, and removes it when told to.
pub fn run(words: &Words) -> ExitCode {
    let found = match Inventory::observe(&Scope::of(words)) {
        Ok(found) => found,
        Err(error) => return refused(&format!("failed to read the cache: {error}")),
    };
    let folder = match PluginFolder::new(words.value("--plugin-dir")) {
        Ok(folder) => folder,
        Err(error) => return refused(&format!("failed to find the folder of plugins: {error}")),
    };
    let known = found.attached.iter().filter(|one| one.is_gone()).map(Remnant::Known);
    let remnants: Vec<_> = known.chain(found.left.iter().map(Remnant::Leased)).collect();
    let fates: Vec<_> =
        remnants.iter().map(|one| if words.has("--remove") { one.remove(&folder) } else { Fate::Found }).collect();
    found.unknown.iter().for_each(|problem| complain(&format!("cni-plugins gc: {problem}\n")));
    let text = if words.has("--json") { json_text(&remnants, &fates) } else { lines(&remnants, &fates) };
    status(&fates, !found.unknown.is_empty(), print(&text))
}

fn refused(problem: &str) -> ExitCode {
    complain(&format!("cni-plugins gc: {problem}\n"));
    ExitCode::FAILURE
}

fn status(fates: &[Fate], is_incomplete: bool, printed: ExitCode) -> ExitCode {
    let is_failure = is_incomplete || fates.iter().any(|fate| matches!(fate, Fate::Failed(_)));
    match printed {
        ExitCode::SUCCESS if is_failure => ExitCode::FAILURE,
        ExitCode::SUCCESS if fates.contains(&Fate::Found) => ExitCode::from(FOUND),
        other => other,
    }
}

impl Remnant<'_> {
    const fn cached(&self) -> &Cached {
        match self {
            Self::Known(one) => &one.cached,
            Self::Leased(one) => &one.cached,
        }
    }

    fn addresses(&self) -> Vec<String> {
        match self {
            Self::Known(one) => one.cached.addresses.iter().map(ToString::to_string).collect(),
            Self::Leased(one) => one.addresses.iter().map(ToString::to_string).collect(),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Known(_) => "its namespace is gone",
            Self::Leased(_) => "nobody knows of it, and no namespace has its addresses",
        }
    }

    /// It was looked for a moment ago, and other things have been removed since.
    fn remove(&self, folder: &PluginFolder) -> Fate {
        if RunningCalls::observe().contains(&self.cached().at) {
            return Fate::Kept("a plugin works on it");
        }
        match self {
            Self::Known(Attached { cached, file, .. }) => match file.is_current() {
                Ok(true) => outcome(folder.delete(cached), || {
                    cni_files::remove(&file.path).map_err(|error| Error::from(error).in_full())
                }),
                Ok(false) => Fate::Kept("the runtime has deleted it, or added it again"),
                Err(error) => Fate::Failed(vec![format!("failed to read {}: {error}", file.path.display())]),
            },
            Self::Leased(left) => outcome(folder.delete(&left.cached), || Ok(())),
        }
    }
}

/// The runtime would try a DEL that has failed again, so it stays known.
fn outcome(failures: Vec<String>, end: impl FnOnce() -> Result<(), String>) -> Fate {
    if !failures.is_empty() {
        return Fate::Failed(failures);
    }
    end().map_or_else(|problem| Fate::Failed(vec![problem]), |()| Fate::Removed)
}

fn lines(remnants: &[Remnant<'_>], fates: &[Fate]) -> String {
    if remnants.is_empty() {
        return "nothing is left over\n".to_owned();
    }
    let line = |(one, fate): (&Remnant<'_>, &Fate)| {
        let Attachment { network, container, ifname } = &one.cached().at;
        let addresses = one.addresses().join(", ");
        format!("{network} {container} {ifname}: {} ({}; {addresses})\n", told(fate), one.kind())
    };
    remnants.iter().zip(fates).map(line).collect()
}

fn told(fate: &Fate) -> String {
    match fate {
        Fate::Found => "left over".to_owned(),
        Fate::Removed => "removed".to_owned(),
        Fate::Kept(why) => format!("kept: {why}"),
        Fate::Failed(failures) => format!("failed: {}", failures.join("; ")),
    }
}

fn json_text(remnants: &[Remnant<'_>], fates: &[Fate]) -> String {
    let entry = |(one, fate): (&Remnant<'_>, &Fate)| {
        let (fate, problems) = match fate {
            Fate::Found => ("found", Vec::new()),
            Fate::Removed => ("removed", Vec::new()),
            Fate::Kept(why) => ("kept", vec![(*why).to_owned()]),
            Fate::Failed(failures) => ("failed", failures.clone()),
        };
        let Attachment { network, container, ifname } = &one.cached().at;
        json!({
            "network": network.as_str(), "container": container.as_str(), "ifname": ifname.as_str(),
            "addresses": one.addresses(), "reason": one.kind(), "outcome": fate, "problems": problems,
        })
    };
    let entries: Vec<_> = remnants.iter().zip(fates).map(entry).collect();
    format!("{:#}\n", json!({ "leftOver": entries }))
}
