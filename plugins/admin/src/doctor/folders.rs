//! The folders of plugins: which plugins a runtime finds there, and whether those of others are in the way.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cni_builtin::{OUR_VERSION, PLUGINS};

use super::Finding;
use super::permissions::has_option;
use super::runtimes::Runtime;
use crate::programs::{about, is_open};

const TOPIC: &str = "plugin folders";

/// Whose plugin a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// Of this release.
    Ours,
    /// Of another release of ours, or of others: this is what it says.
    Other(String),
}

/// A plugin of ours by its name, where a runtime finds it, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FoundPlugin {
    plugin: &'static str,
    folder: PathBuf,
    origin: Origin,
}

/// Looks where each runtime does.
pub fn look(runtimes: &[Runtime]) -> Vec<Finding> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let look = |runtime: &Runtime| {
        let mut findings = vec![judge(runtime, &found_by(runtime))];
        let here = runtime.folders.iter().filter(|folder| folder.is_dir());
        findings.extend(here.filter_map(|folder| judge_folder(folder, &mounts)));
        findings
    };
    runtimes.iter().flat_map(look).collect()
}

/// The first file of each name, as the runtime finds it.
fn found_by(runtime: &Runtime) -> Vec<FoundPlugin> {
    let find = |plugin: &'static str| {
        let folder = runtime.folders.iter().find(|folder| folder.join(plugin).is_file())?;
        Some(FoundPlugin { plugin, folder: folder.clone(), origin: named(about(&folder.join(plugin))) })
    };
    PLUGINS.iter().filter_map(|plugin| find(plugin.kind())).collect()
}

fn named(about: String) -> Origin {
    match about.split_once("+rs.") {
        Some((_, version)) if version == OUR_VERSION => Origin::Ours,
        Some(_) | None => Origin::Other(about),
    }
}

fn judge(runtime: &Runtime, found: &[FoundPlugin]) -> Finding {
    let Runtime { name, folders, named_in } = runtime;
    let searched: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let reported = named_in.as_ref().map_or_else(String::new, |file| format!(", as {} says", file.display()));
    let at = format!("{name}: in {}{reported}", searched.join(", "));
    let others: Vec<&FoundPlugin> = found.iter().filter(|one| one.origin != Origin::Ours).collect();
    match (found.len(), others.is_empty()) {
        (0, _) => {
            Finding::problem(TOPIC, format!("{at} there are no plugins"), "put them into the first of these folders")
        }
        (count, true) => Finding::fine(TOPIC, format!("{at} there are {count} plugins, all of this release")),
        (count, false) if others.len() == count => Finding::note(
            TOPIC,
            format!("{at} there are plugins of others: {}", listed(&others)),
            "see the page \"Moving from the Go plugins\"",
        ),
        (_, false) => Finding::problem(
            TOPIC,
            format!("{at} there are plugins of others beside these: {}", listed(&others)),
            "replace them by these, or remove the folder that comes first from the runtime's configuration",
        ),
    }
}

/// Each folder, with what its plugins say and their names.
fn listed(others: &[&FoundPlugin]) -> String {
    let mut groups: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for FoundPlugin { plugin, folder, origin } in others {
        let about = match origin {
            Origin::Ours => String::new(),
            Origin::Other(about) => about.replace(&format!(" {plugin} "), " "),
        };
        groups.entry((folder.display().to_string(), about)).or_default().push(plugin);
    }
    let text = |((folder, about), plugins): (&(String, String), &Vec<&str>)| {
        format!("{} in {folder} ({about})", plugins.join(", "))
    };
    groups.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn judge_folder(folder: &Path, mounts: &str) -> Option<Finding> {
    let shown = folder.display();
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if is_open(&real) {
        return Some(Finding::problem(
            TOPIC,
            format!("others than root could change {shown}, whose programs a runtime runs as root"),
            format!("chown root:root {shown} && chmod go-w {shown}"),
        ));
    }
    has_option(&real, "noexec", mounts).then(|| {
        Finding::problem(
            TOPIC,
            format!("{shown} is on a file system whose programs cannot be run"),
            format!("mount it without noexec, or move {shown}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;
    use crate::programs::first_line;

    fn found(plugin: &'static str, folder: &str, about: &str) -> FoundPlugin {
        FoundPlugin { plugin, folder: PathBuf::from(folder), origin: named(first_line(about)) }
    }

    fn runtime() -> Runtime {
        let folders = ["/a", "/b"].map(PathBuf::from).to_vec();
        Runtime { name: "Nomad", folders, named_in: Some(PathBuf::from("/etc/n.hcl")) }
    }

    #[test]
    fn plugins_of_others_are_in_the_way_of_ours() {
        let ours = format!("CNI bridge plugin v1.9.1+rs.{OUR_VERSION}\n…");
        let (bridge, portmap) = (found("bridge", "/b", &ours), found("portmap", "/a", "CNI portmap plugin v1.1.1\n"));
        let judged = |found: &[FoundPlugin]| judge(&runtime(), found);
        assert_eq!(judged(&[]).severity, Severity::Problem);
        assert_eq!(judged(std::slice::from_ref(&bridge)).severity, Severity::Fine);
        assert_eq!(judged(std::slice::from_ref(&portmap)).severity, Severity::Note);
        let mixed = judged(&[bridge, portmap]);
        assert_eq!(mixed.severity, Severity::Problem);
        assert_eq!(
            mixed.says,
            "Nomad: in /a, /b, as /etc/n.hcl says there are plugins of others beside these: portmap in /a (CNI plugin v1.1.1)"
        );
    }

    #[test]
    fn another_release_of_ours_is_another() {
        assert_eq!(first_line(""), "it does not say which plugin it is");
        assert_eq!(
            named("CNI bridge plugin v1.9.1+rs.0.0.0".to_owned()),
            Origin::Other("CNI bridge plugin v1.9.1+rs.0.0.0".to_owned())
        );
    }
}
