//! The socket that the daemon creates if systemd passes none.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::service::{is_listened_on, listen_privately};
use cni_files::{Lock, open_or_create, remove};

use crate::error::StartError;

/// A socket that is removed with the daemon. The lock prevents a second daemon; the socket of a killed daemon is
/// replaced.
pub struct OwnSocket {
    path: PathBuf,
    #[expect(dead_code, reason = "it is held until the daemon ends")]
    lock: Lock,
}

/// The time limit for the lock of a daemon that is just ending.
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
