//! The devices of the machine in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_plugin::devices::Devices;

/// What is below `/sys` and `/dev`: directories, and symbolic links.
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
}

impl Devices for FakeDevices {
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error> {
        Ok(self.directories.get(directory).map(|names| names.iter().cloned().collect()))
    }

    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error> {
        Ok(self.links.get(link).cloned())
    }
}
