//! STATUS: checks that the kernel can create links of a kind.

use cni_core::error::Error;
use cni_core::fail;
use cni_plugin::host::Host;

/// Requires, for STATUS, that the kernel can make links of a kind, by its own word.
pub fn require(kind: &'static str, host: &mut dyn Host) -> Result<(), Error> {
    if host.devices().has_link_kind(kind)? {
        return Ok(());
    }
    Err(fail!(NotAvailable, "this kernel has no links of kind {kind}, load their module"))
}
