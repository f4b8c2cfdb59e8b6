//! The container runtimes of this host, and in which folders each of them looks for plugins.
//!
//! Their configurations are not parsed, just searched for the key that names the folders: each runtime has a language of its own, and
//! a key and its value look the same in all of them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::network_lists;
use crate::programs::find_in;

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
    pub named_in: Option<PathBuf>,
}

/// Finds the runtimes that have a program or a configuration on this host. If there are none, returns one that stands for all
/// and uses the folders that most use.
pub fn found() -> Vec<Runtime> {
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
    use super::*;

    fn read(text: &str, key: &str) -> Option<Vec<String>> {
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
            assert_eq!(read(text, key).expect("folders"), folders, "{text}");
        }
        let both = folders_in("bin_dir = \"\"\nbin_dirs = ['/opt/a']", &["bin_dir", "bin_dirs"]);
        assert_eq!(both, Some(vec![PathBuf::from("/opt/a")]), "the first is empty");
        for nothing in ["", "#cni_path = \"/a\"", "my_cni_path = \"/a\"", "cni_path = \"\"", "cni_path = ["] {
            assert_eq!(read(nothing, "cni_path"), None, "{nothing}");
        }
    }
}
