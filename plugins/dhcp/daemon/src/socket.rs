//! The socket that the daemon makes where nobody has made one for it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::service::{is_listened_on, listen_privately};
use cni_files::{Lock, open_or_create, remove};

use crate::error::StartError;

/// A socket that goes with the daemon. The lock keeps a second daemon away, and the socket of one that was killed does not
/// keep the next one away.
pub struct OwnSocket {
    path: PathBuf,
    #[expect(dead_code, reason = "it is held until the daemon ends")]
    lock: Lock,
}

/// How long the lock of a daemon is waited for that is just ending.
const PATIENCE: Duration = Duration::from_millis(500);

impl OwnSocket {
    pub fn listen(path: &Path) -> Result<(UnixListener, Self), StartError> {
        let failed = |source| StartError::Listen { path: path.display().to_string(), source };
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        let lock_path = PathBuf::from(format!("{}.lock", path.display()));
        let lock = Lock::exclusive(open_or_create(&lock_path, 0o600)?, &lock_path, PATIENCE)?;
        if is_listened_on(path).map_err(failed)? {
            return Err(StartError::InUse { path: path.display().to_string() });
        }
        remove(path)?;
        let listener = listen_privately(path).map_err(failed)?;
        Ok((listener, Self { path: path.to_owned(), lock }))
    }

    pub fn remove(self) {
        let removed = fs::remove_file(&self.path);
        removed.unwrap_or_else(|error| log::warn!("{} could not be removed: {error}", self.path.display()));
    }
}
