//! Kernel parameters.

use cni_core::error::Error;
use cni_model::plan::{Ns, Step, Sysctl, SysctlNeed};

use crate::machine::{HostError, LinuxHost};
use cni_kernel::sysctl;

/// Writes a parameter; returns what writes the earlier value back.
pub(super) fn set(
    host: &mut LinuxHost,
    ns: Ns,
    key: &Sysctl,
    value: &str,
    need: SysctlNeed,
) -> Result<Option<Step>, Error> {
    let written = host.side(ns)?.within(|| sysctl::ensure(key, value));
    match (written, need) {
        (Ok(earlier), _) => Ok(earlier.map(|earlier| Step::SetSysctl { ns, key: key.clone(), value: earlier, need })),
        (Err(error), SysctlNeed::Wanted) => {
            log::debug!("{} could not be set, and stays as it is: {error}", key.path());
            Ok(None)
        }
        (Err(source), SysctlNeed::Required) => {
            Err(HostError::WriteSysctl { path: sysctl::path(key), value: value.to_owned(), source }.into())
        }
    }
}
