//! The lock among these plugins around changes of what containers share in the packet filter.
//!
//! There is one for each network namespace, known by its inode. It is advisory, held for a few
//! milliseconds, and goes with the process that holds it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use cni_files::{FileError, Lock, LockError};
use cni_netfilter::iptables::IptablesError;

use crate::locks::take_short;
use cni_kernel::netns::{NetnsScope, OWN_NETNS};

/// Takes the lock of a network namespace; it is released when it is dropped. A host whose run directory cannot be
/// written to has none: there the kernel and the programs alone see to it that rules are changed one by one.
pub(super) fn acquire(patience: Duration, scope: &NetnsScope) -> Result<Option<Lock>, IptablesError> {
    let netns = scope.run(|| fs::metadata(OWN_NETNS)).and_then(|found| found);
    let netns = netns.map_err(FileError::of("stat", OWN_NETNS.as_ref())).map_err(no_file)?;
    take_short(&format!("filter-{}.lock", netns.ino()), patience).map_err(|error| match error {
        LockError::File(error) => no_file(error),
        LockError::Held { path, waited, holders } => {
            IptablesError::Locked { lock: path.display().to_string(), holder: holders.to_string(), waited }
        }
    })
}

fn no_file(error: FileError) -> IptablesError {
    IptablesError::LockFile { path: error.path.display().to_string(), source: error.source }
}
