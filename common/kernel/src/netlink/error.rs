//! Errors of netlink requests, in three parts.
//!
//! [`NetlinkError`] names the operation and its object. Its source, a [`Cause`], holds the error text of the C library
//! (`file exists`); the source of that is the kernel's own text, if it sent one (`ipv4: Address already assigned`).

use std::fmt;
use std::io;
use std::time::Duration;

use cni_core::error::{Code, Failure};

/// The time limit for an answer of the kernel.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// The kernel's own text: the `NLMSGERR_ATTR_MSG` of its answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KernelText(pub(super) String);

/// An error number, printed as its C text in lower case: `no such file or directory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errno {
    number: i32,
    kernel: Option<KernelText>,
}

impl Errno {
    /// Wraps an error number.
    pub const fn new(number: i32) -> Self {
        Self { number, kernel: None }
    }

    /// Adds the kernel's own text.
    pub(super) fn with_kernel_text(self, kernel: Option<KernelText>) -> Self {
        Self { kernel, ..self }
    }

    /// The number, as in `errno.h`.
    pub const fn number(&self) -> i32 {
        self.number
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = usual_text(self.number) {
            return f.write_str(text);
        }
        let text = io::Error::from_raw_os_error(self.number).to_string();
        let suffix = format!(" (os error {})", self.number);
        let text = text.strip_suffix(&suffix).unwrap_or(&text);
        let mut chars = text.chars();
        match (chars.next(), chars.clone().next()) {
            // An acronym, such as in "RFS specific error", stays as it is.
            (Some(first), second) if !second.is_some_and(char::is_uppercase) => {
                write!(f, "{}{}", first.to_lowercase(), chars.as_str())
            }
            (Some(_) | None, _) => f.write_str(text),
        }
    }
}

/// The words of glibc, and of the reference, where those of musl are others.
const fn usual_text(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::EADDRINUSE => "address already in use",
        libc::EADDRNOTAVAIL => "cannot assign requested address",
        libc::EBUSY => "device or resource busy",
        libc::EHOSTUNREACH => "no route to host",
        libc::EIO => "input/output error",
        libc::ELOOP => "too many levels of symbolic links",
        libc::EMFILE => "too many open files",
        libc::EMSGSIZE => "message too long",
        libc::ENAMETOOLONG => "file name too long",
        libc::ENETUNREACH => "network is unreachable",
        libc::ENFILE => "too many open files in system",
        libc::ENOBUFS => "no buffer space available",
        libc::ENOMEM => "cannot allocate memory",
        libc::ENOTTY => "inappropriate ioctl for device",
        libc::EOPNOTSUPP => "operation not supported",
        libc::ERANGE => "numerical result out of range",
        _ => return None,
    })
}

impl std::error::Error for Errno {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kernel.as_ref().map(|kernel| kernel as _)
    }
}

/// The cause of a failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The kernel refused.
    #[error(transparent)]
    Errno(#[from] Errno),
    /// A bridge has as many ports as it can have.
    #[error("bridge has reached the kernel limit of 1023 ports")]
    BridgeFull,
    /// The kernel did not answer.
    #[error("no answer from the kernel within {} seconds", TIMEOUT.as_secs())]
    Timeout,
    /// A list changed each time while it was read.
    #[error("it was changed again and again while it was listed")]
    Interrupted,
    /// The answer is not a netlink message, or does not contain what was requested.
    #[error("cannot decode the kernel's answer")]
    Malformed,
    /// A route's destination and gateway are of different families.
    #[error("gateway, source, and destination ip are not the same IP family")]
    MixedFamilies,
}

impl Cause {
    /// The number of the error, if the kernel gave one.
    pub const fn errno(&self) -> Option<i32> {
        match self {
            Self::Errno(errno) => Some(errno.number()),
            Self::BridgeFull => Some(libc::EXFULL),
            Self::Timeout | Self::Interrupted | Self::Malformed | Self::MixedFamilies => None,
        }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Errno(Errno::new(error.raw_os_error().unwrap_or(libc::EIO)))
    }
}

/// A netlink request that failed: what was to be done, and why it was not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to {operation}")]
pub struct NetlinkError {
    operation: String,
    #[source]
    cause: Cause,
}

impl NetlinkError {
    /// The reason; the same as `source()`, but typed.
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The number of the error, if the kernel gave one.
    pub const fn errno(&self) -> Option<i32> {
        self.cause.errno()
    }
}

impl Failure for NetlinkError {
    fn code(&self) -> Code {
        match self.cause {
            Cause::BridgeFull => Code::TryAgain,
            Cause::Interrupted => Code::TryAgain,
            Cause::Errno(_) | Cause::Timeout | Cause::Malformed | Cause::MixedFamilies => Code::Kernel,
        }
    }
}

/// Accepts refusals with some numbers, as this answer.
pub(crate) fn accept<T>(done: Result<T, Cause>, numbers: &[i32], answer: T) -> Result<T, Cause> {
    done.or_else(|cause| match cause.errno() {
        Some(number) if numbers.contains(&number) => Ok(answer),
        Some(_) | None => Err(cause),
    })
}

/// Names the operation during which a cause arose; the text is made only then.
pub fn during(operation: impl FnOnce() -> String) -> impl FnOnce(Cause) -> NetlinkError {
    move |cause| NetlinkError { operation: operation(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(cause: Cause) -> NetlinkError {
        during(|| "add address 10.1.2.3/24 to link 7".to_owned())(cause)
    }

    #[test]
    fn message_and_details_hold_each_part_once() {
        let kernel = KernelText("ipv4: Address already assigned".to_owned());
        let error = failed(Errno::new(libc::EEXIST).with_kernel_text(Some(kernel)).into());
        assert_eq!(error.to_string(), "failed to add address 10.1.2.3/24 to link 7");
        assert_eq!(error.cause().to_string(), "file exists");
        assert_eq!(error.details(), "file exists: ipv4: Address already assigned");
        assert_eq!((error.errno(), error.code()), (Some(libc::EEXIST), Code::Kernel));
        assert_eq!(Errno::new(libc::ENOENT).to_string(), "no such file or directory");
        assert_eq!(Errno::new(libc::EDOTDOT).to_string(), "RFS specific error");
    }

    #[test]
    fn a_full_bridge_may_be_tried_again() {
        let error = failed(Cause::BridgeFull);
        assert_eq!((error.errno(), error.code()), (Some(libc::EXFULL), Code::TryAgain));
        assert_eq!(error.details(), "bridge has reached the kernel limit of 1023 ports");
    }
}
