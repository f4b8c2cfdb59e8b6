//! The clock that also counts while the machine is suspended, and that of processor time.

use std::io;
use std::time::Duration;

use cni_core::error::{Code, Failure};

/// The kernel does not tell the time.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the time since boot")]
pub struct ClockError(#[source] pub io::Error);

impl Failure for ClockError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// The time since the machine was started, including suspend (`CLOCK_BOOTTIME`).
pub fn since_boot() -> io::Result<Duration> {
    read(libc::CLOCK_BOOTTIME)
}

/// How long processors have worked for this process, in its own code and in the kernel (`CLOCK_PROCESS_CPUTIME_ID`).
pub fn processor_time() -> io::Result<Duration> {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable and outlives the call.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Ok(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default()))
}
