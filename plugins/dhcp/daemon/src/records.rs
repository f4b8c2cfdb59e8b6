//! Files that keep leases while the daemon is restarted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_dhcp::record::LeaseKey;
use cni_dhcp::record::LeaseRecord;
use cni_files::{FileError, read_private, remove_private, replace_private};

pub struct LeaseRecords {
    directory: PathBuf,
}

impl LeaseRecords {
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Those that can be read. The others are of no use to anybody.
    pub fn all(&self) -> Vec<LeaseRecord> {
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => {
                log::warn!("leases of before are lost: {}", Error::from(error).in_full());
                return Vec::new();
            }
        };
        names.into_iter().filter_map(|name| self.read(&name)).collect()
    }

    fn names(&self) -> Result<Vec<String>, FileError> {
        let listed = fs::read_dir(&self.directory).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
        });
        match listed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(FileError::of("read", &self.directory)),
        }
    }

    fn read(&self, name: &str) -> Option<LeaseRecord> {
        let path = self.directory.join(name);
        let read = read_private(&path).map_err(Error::from);
        let parsed = read.and_then(|text| text.map(|text| LeaseRecord::parse(&text)).transpose());
        match parsed {
            Ok(record) => record.filter(|record| record.key.file_name() == name),
            Err(error) => {
                log::warn!("{} is removed: {}", path.display(), error.in_full());
                self.remove(&path);
                None
            }
        }
    }

    pub fn save(&self, record: &LeaseRecord) {
        let path = self.directory.join(record.key.file_name());
        if let Err(error) = replace_private(&path, record.text().as_bytes()) {
            log::warn!(
                "a restart of the daemon will lose the lease of {}: {}",
                record.key,
                Error::from(error).in_full()
            );
        }
    }

    pub fn forget(&self, key: &LeaseKey) {
        self.remove(&self.directory.join(key.file_name()));
    }

    fn remove(&self, path: &Path) {
        if let Err(error) = remove_private(path) {
            log::warn!("{}", Error::from(error).in_full());
        }
    }
}
