//! When `repair` ran last over all networks: a small file that it leaves for `metrics`.
//!
//! It lies beside the records of this boot, so that a host that has just started has none.

use std::fmt;
use std::time::{Duration, SystemTime};

use cni_files::{Draft, FileError, PrivateDirectory, RUN_DIRECTORY};

const FILE: &str = "repaired";

/// A run of `repair`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRepair {
    /// When it ended, as time since 1970, in whole seconds.
    pub ended: Duration,
    /// How many attachments could not be repaired.
    pub failures: usize,
}

impl LastRepair {
    /// A run that ends now.
    pub fn now(failures: usize) -> Self {
        let ended = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { ended: Duration::from_secs(ended.as_secs()), failures }
    }

    /// Reads what the last run has left. Treats a torn file as missing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read() -> Result<Option<Self>, FileError> {
        Self::read_from(&PrivateDirectory::new(RUN_DIRECTORY))
    }

    /// Records the run, in place of earlier ones.
    ///
    /// # Errors
    /// Then the record is as it was.
    pub fn write(self) -> Result<(), FileError> {
        self.write_to(&PrivateDirectory::new(RUN_DIRECTORY))
    }

    fn read_from(directory: &PrivateDirectory) -> Result<Option<Self>, FileError> {
        let content = directory.read_file(FILE)?;
        Ok(content.and_then(|content| Self::parse(&String::from_utf8_lossy(&content))))
    }

    fn write_to(self, directory: &PrivateDirectory) -> Result<(), FileError> {
        directory.ensure()?;
        Draft::remove_dead(directory.path())?;
        directory.replace_file(directory, FILE, self.to_string().as_bytes())
    }

    fn parse(text: &str) -> Option<Self> {
        let (seconds, failures) = text.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { ended: Duration::from_secs(seconds.parse().ok()?), failures: failures.parse().ok()? })
    }
}

impl fmt::Display for LastRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.ended.as_secs(), self.failures)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_run_replaces_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = PrivateDirectory::new(folder.path().join("own"));
        assert_eq!(LastRepair::read_from(&directory).expect("no failure"), None);
        for failures in [0, 17] {
            let run = LastRepair { ended: Duration::from_secs(1_700_000_000), failures };
            run.write_to(&directory).expect("written");
            assert_eq!(LastRepair::read_from(&directory).expect("no failure"), Some(run));
        }
        assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 1, "no draft is left");
    }

    #[test]
    fn a_torn_file_is_missing() {
        for torn in ["", "\n", "1700000000", "1700000000 0", "x 0\n", "1700000000 -1\n", "17 0 0\n"] {
            assert_eq!(LastRepair::parse(torn), None, "{torn:?}");
        }
    }
}
