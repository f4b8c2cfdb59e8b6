//! STATUS: checks the master.

use cni_core::error::{Code, Error};
use cni_core::fail;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use super::master::MasterChoice;

/// Requires that the master exists and is up. Skips a master in the container, since STATUS has no container.
pub fn require(choice: &MasterChoice, host: &mut dyn Host) -> Result<(), Error> {
    if choice.ns == Ns::Container {
        return Ok(());
    }
    let absent = |error: Error| Error::stated(Code::NotAvailable, error.to_string(), error.details());
    let Link { name, up, .. } = choice.look_up(host)?.map_err(absent)?;
    if up {
        return Ok(());
    }
    let text = format!("master {name:?} is down, so that nothing reaches the links on it");
    Err(fail!(LimitedConnectivity, "{text}; \"ip link set {name} up\" sets it up"))
}
