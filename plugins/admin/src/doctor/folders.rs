//! The container runtimes of this host, in which folders each of them looks for plugins, which it finds there, and whether those of others
//! are in the way.
//!
//! Their configurations are not parsed, just searched for the key that names the folders: each runtime has a language of its own, and
//! a key and its value look the same in all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cni_builtin::{OUR_VERSION, PLUGINS};

use super::finding::Finding;
use super::permissions::has_option;
use crate::network_lists;
use crate::programs::{about, find_in, is_open};

const TOPIC: &str = "plugin folders";

/// A plugin of ours by its name, where a runtime finds it, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FoundPlugin {
    plugin: &'static str,
    folder: PathBuf,
    /// What it says, if it is not of this release.
    other: Option<String>,
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
        Some(FoundPlugin { plugin, folder: folder.clone(), other: other(about(&folder.join(plugin))) })
    };
    PLUGINS.iter().filter_map(|plugin| find(plugin.kind())).collect()
}

/// What a plugin of another release of ours, or of others, says; `None` for one of this release.
fn other(about: String) -> Option<String> {
    let is_ours = about.split_once("+rs.").is_some_and(|(_, version)| version == OUR_VERSION);
    (!is_ours).then_some(about)
}

fn judge(runtime: &Runtime, found: &[FoundPlugin]) -> Finding {
    let Runtime { name, folders, named_in } = runtime;
    let searched: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let reported = named_in.as_ref().map_or_else(String::new, |file| format!(", as {} says", file.display()));
    let at = format!("{name}: in {}{reported}", searched.join(", "));
    let others: Vec<&FoundPlugin> = found.iter().filter(|one| one.other.is_some()).collect();
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
    for FoundPlugin { plugin, folder, other } in others {
        let about = other.as_deref().unwrap_or_default().replace(&format!(" {plugin} "), " ");
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

/// What is known of a runtime.
#[derive(Clone, Copy, Debug)]
struct RuntimeSpec {
    name: &'static str,
    /// The names of its program; it has one of them.
    programs: &'static [&'static str],
    /// Configuration files, and folders of them.
    files: &'static [&'static str],
    keys: &'static [&'static str],
    /// Where it looks unless told otherwise.
    folders: &'static [&'static str],
}

const RUNTIMES: [RuntimeSpec; 5] = [
    RuntimeSpec {
        name: "Nomad",
        programs: &["nomad"],
        files: &["/etc/nomad.d", "/etc/nomad"],
        keys: &["cni_path"],
        folders: &["/opt/cni/bin", "/usr/libexec/cni"],
    },
    // Debian's package looks in /usr/lib/cni.
    RuntimeSpec {
        name: "containerd",
        programs: &["containerd"],
        files: &["/etc/containerd/config.toml"],
        keys: &["bin_dir", "bin_dirs"],
        folders: &["/opt/cni/bin", "/usr/lib/cni"],
    },
    RuntimeSpec {
        name: "nerdctl",
        programs: &["nerdctl"],
        files: &["/etc/nerdctl/nerdctl.toml"],
        keys: &["cni_path"],
        folders: &["/opt/cni/bin"],
    },
    RuntimeSpec {
        name: "podman",
        programs: &["podman"],
        files: &["/etc/containers/containers.conf", "/usr/share/containers/containers.conf"],
        keys: &["cni_plugin_dirs"],
        folders: &["/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni", "/usr/lib/cni", "/opt/cni/bin"],
    },
    RuntimeSpec {
        name: "cri-o",
        programs: &["crio"],
        files: &["/etc/crio/crio.conf.d", "/etc/crio/crio.conf"],
        keys: &["plugin_dirs"],
        folders: &["/opt/cni/bin"],
    },
];

/// The names of files in a folder that runtimes read end so.
const EXTENSIONS: [&str; 4] = ["hcl", "json", "conf", "toml"];

/// Where programs are, beside `PATH`.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A runtime, and where it looks for plugins, the first place first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    pub name: &'static str,
    pub folders: Vec<PathBuf>,
    /// The file that says so; `None` where the runtime decides.
    named_in: Option<PathBuf>,
}

/// Finds the runtimes that have a program or a configuration on this host. If there are none, returns one that stands for all
/// and uses the folders that most use.
pub fn runtimes() -> Vec<Runtime> {
    let found: Vec<Runtime> = RUNTIMES.iter().filter(|spec| spec.is_here()).map(RuntimeSpec::observe).collect();
    if !found.is_empty() {
        return found;
    }
    let folders = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"].map(PathBuf::from).to_vec();
    vec![Runtime { name: "no runtime that is known", folders, named_in: None }]
}

impl RuntimeSpec {
    fn is_here(&self) -> bool {
        self.programs.iter().any(|program| find_in(program, USUAL).is_some())
            || self.files.iter().any(|file| Path::new(file).exists())
    }

    fn observe(&self) -> Runtime {
        let reported = self.files().into_iter().find_map(|file| {
            let folders = folders_in(&network_lists::read(&file).ok()?, self.keys)?;
            Some((folders, file))
        });
        match reported {
            Some((folders, file)) => Runtime { name: self.name, folders, named_in: Some(file) },
            None => {
                Runtime { name: self.name, folders: self.folders.iter().map(PathBuf::from).collect(), named_in: None }
            }
        }
    }

    /// The configuration files that there are, the one that prevails first: of those of a folder the last by name.
    fn files(&self) -> Vec<PathBuf> {
        let inside = |folder: &Path| {
            let mut files: Vec<_> =
                fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path()).collect();
            files.retain(|file| file.extension().is_some_and(|kind| EXTENSIONS.iter().any(|one| kind == *one)));
            files.sort_by(|one, other| other.cmp(one));
            files
        };
        self.files
            .iter()
            .map(Path::new)
            .flat_map(|file| if file.is_dir() { inside(file) } else { vec![file.to_owned()] })
            .collect()
    }
}

/// What the first of the keys that is set names: a text, whose parts are separated by colons, or a list of texts. Comments are left out.
fn folders_in(text: &str, keys: &[&str]) -> Option<Vec<PathBuf>> {
    let mut lines = text.lines().map(|line| line.split(['#', '\n']).next().unwrap_or(line).trim());
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once('=').or_else(|| line.split_once(':')) else { continue };
        if !keys.contains(&key.trim().trim_matches('"')) {
            continue;
        }
        // A list may go on in the next lines.
        let mut value = value.trim().to_owned();
        while value.starts_with('[') && !value.contains(']') {
            value.push_str(lines.next()?);
        }
        let quoted = value.split(['"', '\'']).skip(1).step_by(2).flat_map(|text| text.split(':'));
        let folders: Vec<PathBuf> = quoted.filter(|text| text.starts_with('/')).map(PathBuf::from).collect();
        if !folders.is_empty() {
            return Some(folders);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;
    use crate::programs::first_line;

    fn found(plugin: &'static str, folder: &str, about: &str) -> FoundPlugin {
        FoundPlugin { plugin, folder: PathBuf::from(folder), other: other(first_line(about)) }
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
        assert!(other("CNI bridge plugin v1.9.1+rs.0.0.0".to_owned()).is_some());
        assert_eq!(other(format!("CNI bridge plugin v1.9.1+rs.{OUR_VERSION}")), None);
    }

    fn read_folders(text: &str, key: &str) -> Option<Vec<String>> {
        let folders = folders_in(text, &[key])?;
        Some(folders.iter().map(|folder| folder.display().to_string()).collect())
    }

    #[test]
    fn folders_are_read_in_the_language_of_each_runtime() {
        for (text, key, folders) in [
            ("client {\n  cni_path = \"/opt/a:/opt/b\"\n}", "cni_path", &["/opt/a", "/opt/b"][..]),
            ("{\"client\": {\n \"cni_path\": \"/opt/a\"}}", "cni_path", &["/opt/a"]),
            ("[plugins.x.cni]\n  bin_dir = \"/usr/lib/cni\"\n  conf_dir = \"/etc\"", "bin_dir", &["/usr/lib/cni"]),
            (
                "plugin_dirs = [\n\t\"/opt/cni/bin/\",\n\t\"/usr/libexec/cni\",\n]\n",
                "plugin_dirs",
                &["/opt/cni/bin/", "/usr/libexec/cni"],
            ),
            ("bin_dir = ''\nbin_dirs = ['/opt/a', '/opt/b']", "bin_dirs", &["/opt/a", "/opt/b"]),
            ("# a comment\ncni_plugin_dirs = [\"/a\", \"/b\"] # another", "cni_plugin_dirs", &["/a", "/b"]),
        ] {
            assert_eq!(read_folders(text, key).expect("folders"), folders, "{text}");
        }
        let both = folders_in("bin_dir = \"\"\nbin_dirs = ['/opt/a']", &["bin_dir", "bin_dirs"]);
        assert_eq!(both, Some(vec![PathBuf::from("/opt/a")]), "the first is empty");
        for nothing in ["", "#cni_path = \"/a\"", "my_cni_path = \"/a\"", "cni_path = \"\"", "cni_path = ["] {
            assert_eq!(read_folders(nothing, "cni_path"), None, "{nothing}");
        }
    }
}
