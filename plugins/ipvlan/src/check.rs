//! CHECK: verifies that the link is as ADD made it. Its master does not matter, and may be missing
//! from the configuration.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_interface::child;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, IpvlanMode};
use cni_plugin::host::Host;

use crate::KIND;
use crate::config::Config;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    child::check(KIND, config.ipam.as_deref(), request, host, |link| mode(link, config.mode))
}

fn mode(link: &Link, wanted: IpvlanMode) -> Result<(), Error> {
    match link.child {
        Some(ChildKind::Ipvlan { mode: found }) if found != wanted => {
            Err(fail!(CheckFailed, "Container IPVlan mode {found} does not match expected value: {wanted}"))
        }
        Some(_) | None => Ok(()),
    }
}
