//! What files of the host say.

use std::path::Path;

use cni_core::error::Error;
use cni_model::plan::{Ns, Sysctl};
use cni_model::state_file::{StateFile, StateFileReadError};

/// Files of the administrator, of plugins, and of the kernel.
pub trait Files {
    /// Reads a file that the administrator may have written. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// When it is there and cannot be read, or is no text.
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error>;

    /// Reads a state file. Bytes that are not UTF-8 are replaced. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// When it is there and cannot be read, or is not root's own: a link, or another user's.
    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError>;

    /// The names of the entries of a directory of state files, in order; none if there is no directory.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn state_file_names(&mut self, directory: &Path) -> Result<Vec<String>, Error>;

    /// The value of a kernel parameter, without white space around it; `None` when the kernel does not have it.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error>;

    /// The user and the group by whose rights the plugin reads them.
    fn effective_ids(&mut self) -> (u32, u32);
}
