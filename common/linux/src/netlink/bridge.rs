//! Bridges and their ports. The VLANs of a port are in `vlan`.

use cni_core::mac::Mac;
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, LinkAttribute, LinkInfo, LinkMessage, LinkProtoInfoBridge,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::error::{Cause, NetlinkError, during};
use super::link::link_message;
use super::socket::Socket;

/// `IFLA_BRPORT_MODE` of `linux/if_link.h`: whether the port is a hairpin.
const PORT_MODE: u16 = 4;
/// `IFLA_BRPORT_ISOLATED` of `linux/if_link.h`.
const PORT_ISOLATED: u16 = 33;

/// A bridge to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewBridge<'a> {
    /// Name.
    pub name: &'a str,
    /// MTU; if none, that of the port with the smallest.
    pub mtu: Option<u32>,
    /// Link-layer address, which then no longer follows those of the ports.
    pub mac: &'a Mac,
    /// Whether the bridge tells VLANs apart.
    pub vlan_filtering: bool,
}

/// How a bridge treats one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// Whether frames may leave through the port that they came in by.
    pub hairpin: bool,
    /// Whether frames to other isolated ports are dropped.
    pub isolated: bool,
}

impl Socket {
    /// Makes a bridge.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` when the name is taken, `ERANGE` when it has more than 15
    /// bytes, `EOPNOTSUPP` when VLANs are asked for and the kernel cannot filter them.
    pub fn create_bridge(&mut self, bridge: &NewBridge<'_>) -> Result<(), NetlinkError> {
        let NewBridge { name, mtu, mac, vlan_filtering } = *bridge;
        let mut info = vec![LinkInfo::Kind(InfoKind::Bridge)];
        if vlan_filtering {
            info.push(LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::VlanFiltering(true)])));
        }
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::Address(mac.bytes().to_vec()));
        message.attributes.extend(mtu.map(LinkAttribute::Mtu));
        message.attributes.push(LinkAttribute::LinkInfo(info));
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(during(|| format!("create bridge {name}")))
    }

    /// Makes a link a port of a bridge.
    ///
    /// # Errors
    /// When the kernel refuses; a bridge that has all its ports is named as such.
    pub fn set_master(&mut self, index: u32, bridge: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Controller(bridge))
            .map_err(|cause| if cause.errno() == Some(libc::EXFULL) { Cause::BridgeFull } else { cause })
            .map_err(during(|| format!("make link {index} a port of bridge {bridge}")))
    }

    /// Sets both properties of a bridge port.
    ///
    /// # Errors
    /// When the kernel refuses, such as for a link that is no port.
    pub fn set_bridge_port(&mut self, index: u32, port: BridgePort) -> Result<(), NetlinkError> {
        let BridgePort { hairpin, isolated } = port;
        let flag = |kind, value| LinkProtoInfoBridge::Other(DefaultNla::new(kind, vec![u8::from(value)]));
        let mut message = link_message(index);
        message.header.interface_family = AddressFamily::Bridge;
        message
            .attributes
            .push(LinkAttribute::ProtoInfoBridge(vec![flag(PORT_MODE, hairpin), flag(PORT_ISOLATED, isolated)]));
        self.change(RouteNetlinkMessage::SetLink(message), 0)
            .map_err(during(|| format!("set hairpin {hairpin} and isolated {isolated} on bridge port {index}")))
    }
}
