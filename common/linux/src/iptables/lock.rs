//! The lock for changes of the chains and rules that all containers share.
//!
//! There is one for each network namespace, named by its inode. Only these plugins use it. It is held for a few
//! milliseconds, and the kernel releases it when the process ends.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use cni_core::error::Code;
use cni_files::{FileError, Lock, LockError};
use cni_netfilter::{NetfilterError, NetfilterErrorKind};

use crate::locks::take_short;
use cni_kernel::netns::{NetnsScope, OWN_NETNS};

/// Takes the lock of a network namespace, which is released when it is dropped. If the run directory cannot be written,
/// there is no lock: then only the kernel and the programs ensure that rules are changed one after the other.
pub(super) fn acquire(patience: Duration, scope: &NetnsScope) -> Result<Option<Lock>, NetfilterError> {
    let netns = scope.run(|| fs::metadata(OWN_NETNS)).and_then(|found| found);
    let netns = netns.map_err(FileError::of("stat", OWN_NETNS.as_ref())).map_err(no_file)?;
    take_short(&format!("filter-{}.lock", netns.ino()), patience).map_err(|error| match error {
        LockError::File(error) => no_file(error),
        LockError::Held { path, waited, holders } => NetfilterError::locked(path.display(), holders, waited),
    })
}

fn no_file(error: FileError) -> NetfilterError {
    let text = format!("failed to lock {}", error.path.display());
    NetfilterError::new(NetfilterErrorKind::Other, Code::Io, text, error.source)
}
