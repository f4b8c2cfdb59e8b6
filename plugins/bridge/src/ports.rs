//! The bridge port that is the host's end of a container's veth.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_interface::alias::LinkOwner;
use cni_interface::verify;
use cni_interface::veth::{self, NewVeth};
use cni_model::link::Link;
use cni_model::plan::{BridgePort, LinkSetting, Ns, Plan, Step};
use cni_plugin::host::Host;

use crate::config::Config;

/// Plans the port: what the host's end of the veth becomes.
pub fn plan_port(plan: &mut Plan, config: &Config, veth: &NewVeth) {
    plan.within(veth.set(LinkSetting::Master(config.bridge.clone())));
    let port = BridgePort { hairpin: config.hairpin, isolated: config.isolated };
    plan.within(veth.set(LinkSetting::Port(port)));
    if let Some(vlans) = config.vlans.port.clone() {
        plan.within(Step::SetPortVlans { ns: Ns::Host, name: veth.host.clone(), vlans });
    }
}

/// Finds the host's end from the container's, under any name. A host's end whose alias names another attachment does
/// not count, whatever the container has done to its interfaces.
pub fn find(
    config: &Config,
    at: &Attachment,
    container: &Link,
    bridge: &Link,
    host: &mut dyn Host,
) -> Result<Link, Error> {
    let is_ours = |link: &Link| link.master == Some(bridge.index) && LinkOwner::of(link, at) != LinkOwner::Another;
    let port = veth::host_end(container, host)?.filter(is_ours);
    port.ok_or_else(|| {
        let (bridge, ifname) = (&config.bridge, &at.ifname);
        let text = format!("CNI veth created for bridge {bridge} was not found");
        fail!(CheckFailed, "{text}: the peer of {ifname} is not a port of {bridge}")
    })
}

/// Requires that the port is up, and in the configured VLANs.
pub fn check(config: &Config, port: &Link, host: &mut dyn Host) -> Result<(), Error> {
    verify::up(Ns::Host, port)?;
    let Some(want) = &config.vlans.port else { return Ok(()) };
    match want.first_missing(&host.devices().port_vlans(Ns::Host, port.index)?) {
        Some(vlan) => {
            let port = &port.name;
            Err(fail!(CheckFailed, "VLAN {vlan} not found on interface {port}, where {want} are expected"))
        }
        None => Ok(()),
    }
}
