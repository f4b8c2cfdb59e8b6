//! The ports of bridges. The VLANs of a port are in `vlan`.

use cni_model::plan::BridgePort;
use netlink_packet_core::DefaultNla;
use netlink_packet_route::link::{LinkAttribute, LinkProtoInfoBridge};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::error::{Cause, NetlinkError, during};
use super::link::link_message;
use super::socket::Socket;

/// `IFLA_BRPORT_MODE` of `linux/if_link.h`: whether the port is a hairpin.
const PORT_MODE: u16 = 4;
/// `IFLA_BRPORT_ISOLATED` of `linux/if_link.h`.
const PORT_ISOLATED: u16 = 33;

impl Socket {
    /// Makes a link a port of a bridge.
    ///
    /// # Errors
    /// When the kernel refuses; a bridge without room for another port has an error of its own.
    pub fn set_master(&mut self, index: u32, bridge: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Controller(bridge))
            .map_err(|cause| if cause.errno() == Some(libc::EXFULL) { Cause::BridgeFull } else { cause })
            .map_err(during(|| format!("make {} a port of bridge {bridge}", self.label(index))))
    }

    /// Removes a port from its bridge.
    pub fn clear_master(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Controller(0))
            .map_err(during(|| format!("remove {} from its bridge", self.label(index))))
    }

    /// Sets both properties of a bridge port.
    ///
    /// # Errors
    /// When the kernel refuses, such as for a link that is not a port.
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
