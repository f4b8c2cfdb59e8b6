//! Errors of starting the daemon, in the words of the reference where it has some.

use std::io;

use crate::service::ActivationError;
use cni_files::{FileError, LockError};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("Error getting listener: {0}")]
    Activation(#[from] ActivationError),
    #[error("Error getting listener: listen unix {path}: bind: address already in use: another daemon listens there")]
    InUse { path: String },
    #[error("Error getting listener: listen unix {path}: {source}")]
    Listen {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("Error getting listener: {0}")]
    Lock(#[from] LockError),
    #[error("Error getting listener: {}: {}", .0, .0.source)]
    File(#[from] FileError),
    #[error("Error writing pidfile {path:?}: {source}")]
    PidFile {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("the daemon cannot wait for anything: {0}")]
    Wait(#[source] io::Error),
}
