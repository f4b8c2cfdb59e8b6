//! CHECK: verifies that the link is as ADD made it. Its master does not matter, and may be missing
//! from the configuration.

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_interface::child;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, IpvlanMode};
use cni_plugin::host::Host;

use crate::KIND;
use crate::config::Config;

/// The links of the master are in another mode.
#[derive(Debug, thiserror::Error)]
#[error("Container IPVlan mode {found} does not match expected value: {wanted}")]
struct IpvlanModeError {
    found: IpvlanMode,
    wanted: IpvlanMode,
}

impl Failure for IpvlanModeError {
    fn code(&self) -> Code {
        Code::CheckFailed
    }
}

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    child::check(KIND, config.ipam.as_deref(), request, host, |link| Ok(mode(link, config.mode)?))
}

fn mode(link: &Link, wanted: IpvlanMode) -> Result<(), IpvlanModeError> {
    match link.child {
        Some(ChildKind::Ipvlan { mode: found }) if found != wanted => Err(IpvlanModeError { found, wanted }),
        Some(_) | None => Ok(()),
    }
}
