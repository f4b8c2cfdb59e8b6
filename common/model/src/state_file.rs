//! State files: small files of a plugin for its own DEL, in a directory that the configuration names.
//!
//! Name and format are those of the reference, so each implementation can take over from the other. Facts that only
//! these plugins need are in [records](crate::record).

use std::fmt;
use std::path::{Path, PathBuf};

use cni_core::error::{Code, Error, Failure};

/// The longest name of a file, in bytes: `NAME_MAX` of `linux/limits.h`.
pub const LONGEST_NAME: usize = 255;

/// Which file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateFile {
    directory: PathBuf,
    name: String,
}

/// A place where no file can be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateFileError {
    /// The directory would depend on where the runtime was started.
    #[error("{:?} is not an absolute path", directory)]
    Directory {
        /// The directory.
        directory: PathBuf,
    },
    /// No file has such a name.
    #[error("{name:?} is not the name of a file")]
    Name {
        /// The name.
        name: String,
    },
}

impl Failure for StateFileError {
    fn code(&self) -> Code {
        match self {
            Self::Directory { .. } => Code::InvalidConfig,
            Self::Name { .. } => Code::Internal,
        }
    }
}

/// Errors of reading a state file.
#[derive(Debug)]
pub enum StateFileReadError {
    /// It is a link, no file, or another user's: no plugin has written it, and nothing that it says counts.
    Foreign(Error),
    /// It is root's own, and reading it failed.
    Unreadable(Error),
}

impl From<StateFileReadError> for Error {
    fn from(error: StateFileReadError) -> Self {
        match error {
            StateFileReadError::Foreign(error) | StateFileReadError::Unreadable(error) => error,
        }
    }
}

impl StateFile {
    /// The file of a name in a directory, which is made when the file is written.
    pub fn new(directory: &str, name: &str) -> Result<Self, StateFileError> {
        if !directory.starts_with('/') || directory.contains('\0') {
            return Err(StateFileError::Directory { directory: directory.into() });
        }
        if ["", ".", ".."].contains(&name) || name.contains(['/', '\0']) {
            return Err(StateFileError::Name { name: name.to_owned() });
        }
        Ok(Self { directory: directory.into(), name: name.to_owned() })
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

impl fmt::Display for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_an_absolute_path_and_stays_in_its_directory() {
        assert_eq!(
            StateFile::new("/run/x", "c1_eth0.json").map(|file| file.to_string()),
            Ok("/run/x/c1_eth0.json".to_owned())
        );
        for (directory, name, text) in [
            ("run/x", "a", r#""run/x" is not an absolute path"#),
            ("", "a", r#""" is not an absolute path"#),
            ("/run/x\0", "a", r#""/run/x\0" is not an absolute path"#),
            ("/run/x", "..", r#"".." is not the name of a file"#),
            ("/run/x", "", r#""" is not the name of a file"#),
            ("/run/x", "../a", r#""../a" is not the name of a file"#),
        ] {
            assert_eq!(StateFile::new(directory, name).expect_err("refused").to_string(), text);
        }
    }
}
