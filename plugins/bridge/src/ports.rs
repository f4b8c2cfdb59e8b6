//! The port of the bridge that is the host's end of a container's veth.

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_interface::{alias, verify};
use cni_plugin::host::Host;
use cni_plugin::link::Link;
use cni_plugin::plan::{BridgePort, IfPresent, LinkKind, LinkSetting, Need, NewLink, Ns, Plan, Step, Sysctl, VethPeer};
use cni_plugin::vlan::{PortVlans, VlanId};

use crate::add::Names;
use crate::config::Config;

/// What of a port is missing or wrong.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The host's end is gone, or is no port of the bridge.
    #[error("CNI veth created for bridge {bridge} was not found: the peer of {ifname} is no port of {bridge}")]
    NotAPort {
        /// The bridge.
        bridge: String,
        /// The name inside the container.
        ifname: String,
    },
    /// The port does not take part in a VLAN as it should.
    #[error("VLAN {vlan} not found on interface {port}, where {want} are expected")]
    PortVlan {
        /// The first one.
        vlan: VlanId,
        /// The port.
        port: String,
        /// All of the configuration.
        want: PortVlans,
    },
}

impl Failure for PortError {
    fn code(&self) -> Code {
        match self {
            Self::NotAPort { .. } | Self::PortVlan { .. } => Code::CheckFailed,
        }
    }
}

/// Plans the veth: one end in the container, the other a port of the bridge.
pub fn veth(plan: &mut Plan, config: &Config, at: &Attachment, mac: &Mac, names: &Names) {
    let host = &names.host;
    let peer = VethPeer { ns: Ns::Host, name: host.clone(), mac: names.host_mac.clone() };
    let link = NewLink {
        name: at.ifname.clone(),
        mac: Some(mac.clone()),
        mtu: config.mtu,
        if_present: IfPresent::Refuse,
        kind: LinkKind::Veth { peer },
    };
    plan.owned(Step::CreateLink { ns: Ns::Container, link });
    plan.within(set(Ns::Host, host, LinkSetting::Alias(alias::of(at))));
    plan.within(accept_no_router(host));
    plan.within(set(Ns::Host, host, LinkSetting::Up));
    plan.within(set(Ns::Host, host, LinkSetting::Master(config.bridge.clone())));
    let port = BridgePort { hairpin: config.hairpin, isolated: config.isolated };
    plan.within(set(Ns::Host, host, LinkSetting::Port(port)));
    if let Some(vlans) = config.vlans.port.clone() {
        plan.within(Step::SetPortVlans { ns: Ns::Host, name: host.clone(), vlans });
    }
}

pub fn set(ns: Ns, name: &IfName, setting: LinkSetting) -> Step {
    Step::SetLink { ns, name: name.clone(), setting }
}

/// Router advertisements of containers must not change the host's routes: CVE-2020-10749.
pub fn accept_no_router(name: &IfName) -> Step {
    let key = Sysctl::interface(Family::V6, name, "accept_ra");
    Step::SetSysctl { ns: Ns::Host, key, value: "0".to_owned(), need: Need::Wanted }
}

/// The host's end is found from the container's, whatever it is called by now.
pub fn find(
    config: &Config,
    ifname: &IfName,
    container: &Link,
    bridge: &Link,
    host: &mut dyn Host,
) -> Result<Link, Error> {
    let peer = match container.peer {
        Some(index) => host.link_by_index(Ns::Host, index)?,
        None => None,
    };
    let is_peer = |link: &Link| link.kind.as_deref() == Some("veth") && link.peer == Some(container.index);
    let port = peer.filter(|link| is_peer(link) && link.master == Some(bridge.index));
    let (bridge, ifname) = (config.bridge.to_string(), ifname.to_string());
    Ok(port.ok_or(PortError::NotAPort { bridge, ifname })?)
}

/// Whether the port is up, and in the VLANs of the configuration.
pub fn check(config: &Config, port: &Link, host: &mut dyn Host) -> Result<(), Error> {
    verify::up(Ns::Host, port)?;
    let Some(want) = &config.vlans.port else { return Ok(()) };
    match want.first_missing(&host.port_vlans(port.index)?) {
        Some(vlan) => Err(PortError::PortVlan { vlan, port: port.name.clone(), want: want.clone() }.into()),
        None => Ok(()),
    }
}
