//! STATUS: checks that the kernel can create links of a kind.

use cni_core::error::{Code, Error, Failure};
use cni_plugin::host::Host;

/// The kernel cannot make the links that a plugin makes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this kernel has no links of kind {kind}, load their module")]
pub struct UnknownKindError {
    /// The kind.
    pub kind: &'static str,
}

impl Failure for UnknownKindError {
    fn code(&self) -> Code {
        Code::NotAvailable
    }
}

/// Requires, for STATUS, that the kernel can make links of a kind, by its own word.
pub fn require(kind: &'static str, host: &mut dyn Host) -> Result<(), Error> {
    if host.devices().has_link_kind(kind)? { Ok(()) } else { Err(UnknownKindError { kind }.into()) }
}
