//! The lock among these plugins around changes of what containers share in the packet filter.
//!
//! There is one for each network namespace, known by its inode. It is advisory, held for a few
//! milliseconds, and goes with the process that holds it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni_netfilter::iptables::IptablesError;

use super::holder::holder;
use crate::claims::RUN_DIRECTORY;

/// The network namespace of the calling thread.
const OWN_NETNS: &str = "/proc/thread-self/ns/net";

/// How often a held lock is tried again.
const PAUSE: Duration = Duration::from_millis(2);

/// Takes the lock of the network namespace that the thread is in; it is released when the file is closed.
pub(super) fn acquire(patience: Duration) -> Result<File, IptablesError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| IptablesError::LockFile { path, source }
    };
    let netns = fs::metadata(OWN_NETNS).map_err(failed(Path::new(OWN_NETNS)))?;
    let path = PathBuf::from(RUN_DIRECTORY).join(format!("filter-{}.lock", netns.ino()));
    let file = open(&path).map_err(failed(&path))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if started.elapsed() < patience => sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let (lock, holder) = (path.display().to_string(), holder(&path));
                return Err(IptablesError::Locked { lock, holder, waited: patience });
            }
            Err(TryLockError::Error(source)) => return Err(failed(&path)(source)),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    fs::create_dir_all(RUN_DIRECTORY)?;
    File::options().create(true).truncate(false).write(true).open(path)
}
