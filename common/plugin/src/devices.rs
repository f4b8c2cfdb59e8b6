//! What the kernel tells of devices below `/sys` and `/dev`, as far as a plugin has to find a link by its device, or needs one.

use std::path::Path;

use cni_core::error::Error;

/// The devices of the machine.
pub trait Devices {
    /// The names in a directory, in order; `None` when there is no such directory.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error>;

    /// The last part of where a symbolic link leads, which for `driver` is the driver's name; `None` when there is no such link.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error>;
}
