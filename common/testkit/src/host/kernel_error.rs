//! Errors of the kernel in memory.

use cni_core::error::{Code, Error, Failure};

/// A refusal, with the kernel's reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct KernelRefusal(String);

impl Failure for KernelRefusal {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

/// Refuses.
pub fn refuse<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(KernelRefusal(why.into()).into())
}
