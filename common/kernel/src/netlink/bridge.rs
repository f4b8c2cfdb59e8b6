//! The ports of bridges, and their VLANs.
//!
//! The kernel cannot list the VLANs of a single port in this form, so [`Socket::bridge_vlans`] reads those of every
//! port. They are sent as ranges.

use std::ops::RangeInclusive;

use cni_model::plan::BridgePort;
use cni_model::vlan::{BridgeVlan, VlanId};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::link::{
    AfSpecBridge, BridgeFlag, BridgeVlanInfo, BridgeVlanInfoFlags, LinkAttribute, LinkExtentMask, LinkMessage,
    LinkProtoInfoBridge,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::attribute::{attributes, field};
use super::error::{Cause, NetlinkError, during};
use super::link::{HEADER_LENGTH, link_message, read_index};
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

/// `IFLA_BRIDGE_VLAN_INFO` of `linux/if_bridge.h`.
const VLAN_INFO: u16 = 2;

impl Socket {
    /// Lists the VLANs of a bridge port in ascending order; none for a link that is not a port.
    pub fn bridge_vlans(&mut self, index: u32) -> Result<Vec<BridgeVlan>, NetlinkError> {
        let mut question = bridge_message(0);
        question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::BrvlanCompressed]));
        let read = |payload: &[u8]| (read_index(payload)? == index).then(|| read_vlans(payload));
        self.dump(&RouteNetlinkMessage::GetLink(question), read)
            .map(|ports| ports.concat())
            .map_err(during(|| format!("list the VLANs of bridge port {index}")))
    }

    /// Adds one VLAN to a bridge port, or sets its flags if the port has it.
    ///
    /// # Errors
    /// When the kernel refuses: `EOPNOTSUPP` when it cannot filter VLANs.
    pub fn add_port_vlan(&mut self, index: u32, vlan: BridgeVlan) -> Result<(), NetlinkError> {
        let BridgeVlan { id, pvid, untagged } = vlan;
        let mut flags = BridgeVlanInfoFlags::empty();
        flags.set(BridgeVlanInfoFlags::Pvid, pvid);
        flags.set(BridgeVlanInfoFlags::Untagged, untagged);
        self.change(RouteNetlinkMessage::SetLink(vlan_message(index, &(id..=id), flags)), 0)
            .map_err(during(|| format!("add VLAN {id} to bridge port {index}")))
    }

    /// Adds a range of tagged VLANs to a bridge port in one request.
    ///
    /// # Errors
    /// When the kernel refuses: `EOPNOTSUPP` when it cannot filter VLANs, `EINVAL` for an empty range.
    pub fn add_port_vlan_range(&mut self, index: u32, ids: RangeInclusive<VlanId>) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::SetLink(vlan_message(index, &ids, BridgeVlanInfoFlags::empty())), 0)
            .map_err(during(|| format!("add VLANs {} to {} to bridge port {index}", ids.start(), ids.end())))
    }

    /// Removes a range of VLANs, or the one of `id..=id`, from a bridge port; absent ones are no error.
    ///
    /// # Errors
    /// When the kernel refuses, such as for an empty range (`EINVAL`).
    pub fn remove_port_vlans(&mut self, index: u32, ids: RangeInclusive<VlanId>) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelLink(vlan_message(index, &ids, BridgeVlanInfoFlags::empty())), 0)
            .map_err(during(|| format!("remove VLANs {} to {} from bridge port {index}", ids.start(), ids.end())))
    }
}

fn bridge_message(index: u32) -> LinkMessage {
    let mut message = link_message(index);
    message.header.interface_family = AddressFamily::Bridge;
    message
}

fn vlan_message(index: u32, ids: &RangeInclusive<VlanId>, flags: BridgeVlanInfoFlags) -> LinkMessage {
    let info =
        |id: &VlanId, position| AfSpecBridge::VlanInfo(BridgeVlanInfo { flags: flags | position, vid: id.number() });
    let mut spec = vec![AfSpecBridge::Flags(BridgeFlag::Controller)];
    if ids.start() == ids.end() {
        // The kernel refuses a range of one.
        spec.push(info(ids.start(), BridgeVlanInfoFlags::empty()));
    } else {
        spec.push(info(ids.start(), BridgeVlanInfoFlags::RangeBegin));
        spec.push(info(ids.end(), BridgeVlanInfoFlags::RangeEnd));
    }
    let mut message = bridge_message(index);
    message.attributes.push(LinkAttribute::AfSpecBridge(spec));
    message
}

fn read_vlans(payload: &[u8]) -> Vec<BridgeVlan> {
    let mut vlans = Vec::new();
    let mut begin = None;
    let specs =
        attributes(payload.get(HEADER_LENGTH..).unwrap_or_default()).filter(|spec| spec.kind == libc::IFLA_AF_SPEC);
    for info in specs.flat_map(|spec| spec.nested()).filter(|info| info.kind == VLAN_INFO) {
        let (Some(flags), Some(id)) = (field(info.value, 0), field(info.value, 2)) else { continue };
        let (flags, id) = (BridgeVlanInfoFlags::from_bits_retain(u16::from_ne_bytes(flags)), u16::from_ne_bytes(id));
        if flags.contains(BridgeVlanInfoFlags::RangeBegin) {
            begin = Some(id);
            continue;
        }
        let first = begin.take().filter(|_| flags.contains(BridgeVlanInfoFlags::RangeEnd)).unwrap_or(id);
        let pvid = flags.contains(BridgeVlanInfoFlags::Pvid);
        let untagged = flags.contains(BridgeVlanInfoFlags::Untagged);
        let ids = first..=id.min(VlanId::LAST.number());
        vlans.extend(ids.filter_map(VlanId::new).map(|id| BridgeVlan { id, pvid, untagged }));
    }
    vlans
}

#[cfg(test)]
mod tests;
