//! CHECK: verifies that the link is in the container as ADD left it.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_interface::{ipam, verify};
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::devices::{self, DeviceSearch};

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let netns = request.netns().unwrap_or_default();
    host.enter(netns)?;
    let target = devices::resolve(&config, host.devices())?;
    ipam::delegate(config.ipam.as_deref(), Command::Check, host)?;
    let result = verify::prev_result(request)?;
    if target == DeviceSearch::Dpdk {
        return Ok(());
    }
    let name = request.attachment()?.ifname;
    let reported = verify::interface_of_result(&result, &name, netns)?;
    let link = verify::present(Ns::Container, &name, host)?;
    verify::mac(&link, reported)?;
    verify::up(Ns::Container, &link)?;
    verify::addresses_and_routes(&result, &link, host)
}
