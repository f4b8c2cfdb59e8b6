//! A unique identifier of a network namespace, never reused.

use std::io;

use cni_core::error::{Code, Failure};
use cni_files::FileError;

use cni_kernel::netlink::netns_cookie;

/// A namespace that the kernel could identify, and does not.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The kernel does not name the boot.
    #[error(transparent)]
    Boot(#[from] FileError),
    /// The kernel does not identify the namespace.
    #[error("failed to read the cookie of the network namespace")]
    Cookie(#[source] io::Error),
}

impl Failure for IdentityError {
    fn code(&self) -> Code {
        match self {
            Self::Boot(error) => error.code(),
            Self::Cookie(_) => Code::Kernel,
        }
    }
}

/// The boot and the namespace that the calling thread is in: the kernel never gives a cookie twice in a boot.
/// `None` where it gives none, before Linux 5.14.
///
/// # Errors
/// When it could and does not. Who takes that for an old kernel would look for records in the wrong place.
pub fn identity() -> Result<Option<String>, IdentityError> {
    netns_cookie().map_err(IdentityError::Cookie)?.map(identity_of).transpose()
}

/// The identifier of the namespace with this cookie.
pub fn identity_of(cookie: u64) -> Result<String, IdentityError> {
    Ok(format!("{}:{cookie}", cni_files::boot_id()?))
}
