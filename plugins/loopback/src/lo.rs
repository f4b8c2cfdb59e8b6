//! The interface `lo` of a container.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{LinkSetting, Ns, Step};
use cni_plugin::host::Host;

pub fn observe(host: &mut dyn Host, netns: &str) -> Result<Link, Error> {
    host.enter(netns)?;
    let lo = host.link(Ns::Container, &IfName::lo())?;
    lo.ok_or_else(|| fail!(InvalidNetns, "there is no interface lo in {netns:?}"))
}

pub fn set(setting: LinkSetting) -> Step {
    Step::SetLink { ns: Ns::Container, name: IfName::lo(), setting }
}
