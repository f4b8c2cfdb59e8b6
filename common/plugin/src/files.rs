//! Questions about files of the host.

use std::path::Path;

use cni_core::error::Error;
use cni_model::plan::{Ns, Sysctl};
use cni_model::state_file::{StateFile, StateFileReadError};

/// Files of the administrator, of plugins, and of the kernel.
pub trait Files {
    /// Reads a file that the administrator may have written. Returns `None` if it is missing.
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error>;

    /// Reads a state file. Bytes that are not UTF-8 are replaced. Returns `None` if it is missing.
    ///
    /// # Errors
    /// If it exists and cannot be read, or is not root's own file: a link, or another user's.
    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError>;

    /// Lists the names in a directory of state files, in order; empty if the directory is missing.
    fn state_file_names(&mut self, directory: &Path) -> Result<Vec<String>, Error>;

    /// The value of a kernel parameter, without white space around it; `None` when the kernel does not have it.
    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error>;

    /// The user and the group with whose permissions the plugin reads them.
    fn effective_ids(&mut self) -> (u32, u32);
}
