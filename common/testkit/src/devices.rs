//! The devices of the machine in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directories and symbolic links below `/sys` and `/dev`.
#[derive(Debug, Default)]
pub struct FakeDevices {
    directories: BTreeMap<PathBuf, BTreeSet<String>>,
    links: BTreeMap<PathBuf, String>,
}

impl FakeDevices {
    /// Adds a directory, and those that it is in.
    pub fn add_directory(&mut self, path: &str) {
        let path = Path::new(path);
        self.directories.entry(path.to_owned()).or_default();
        for below in path.ancestors() {
            if let (Some(directory), Some(name)) = (below.parent(), below.file_name()) {
                let names = self.directories.entry(directory.to_owned()).or_default();
                names.insert(name.to_string_lossy().into_owned());
            }
        }
    }

    /// Adds a link to something of this name.
    pub fn add_link(&mut self, path: &str, leads_to: &str) {
        self.links.insert(path.into(), leads_to.to_owned());
    }

    /// The names in a directory; `None` if it is missing.
    pub(crate) fn entries(&self, directory: &Path) -> Option<Vec<String>> {
        self.directories.get(directory).map(|names| names.iter().cloned().collect())
    }

    /// The target of a link; `None` if it is missing.
    pub(crate) fn leads_to(&self, link: &Path) -> Option<String> {
        self.links.get(link).cloned()
    }
}
