//! CHECK: verifies that the interface is in the VRF.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_interface::verify;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::facts;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    facts::prev_result(request)?;
    let ifname = request.attachment()?.ifname;
    host.enter(request.netns().unwrap_or_default())?;
    let name = config.name.to_string();
    let Some((vrf, _)) = facts::vrf(&config, host)? else {
        return Err(fail!(CheckFailed, "could not find VRF {name}: Link not found"));
    };
    verify::up(Ns::Container, &vrf)?;
    let link = host.link(Ns::Container, &ifname)?;
    if link.is_some_and(|link| link.master == Some(vrf.index)) {
        return Ok(());
    }
    Err(fail!(CheckFailed, "failed to find {ifname} associated to vrf {name}"))
}
