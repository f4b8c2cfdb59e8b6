//! CHECK: verifies that the link is as ADD made it. As in the reference, routes are ignored.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_interface::{ipam, verify};
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::config::Config;

use crate::KIND;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let netns = request.netns().unwrap_or_default();
    host.enter(netns)?;
    ipam::delegate(Some(&config.ipam), Command::Check, host)?;
    let result = verify::prev_result(request)?;
    let name = request.attachment()?.ifname;
    let reported = verify::interface_of_result(&result, &name, netns)?;
    let link = verify::present(Ns::Container, &name, host)?;
    verify::kind(&link, KIND)?;
    verify::mac(&link, reported)?;
    verify::up(Ns::Container, &link)?;
    verify::addresses(&result, &link, host)
}
