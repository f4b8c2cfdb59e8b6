//! Creates links: one request per link, with all its properties. Decodes the properties that only some kinds have.

use std::os::fd::{AsRawFd, BorrowedFd};

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::plan::{ChildKind, IpvlanMode, LinkKind, MacvlanMode, NewLink, TapOptions, TapQueues, VethPeer};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoIpVlan, InfoKind, InfoMacVlan, InfoVeth, InfoVlan, InfoVrf, LinkAttribute, LinkInfo,
    LinkMessage,
};

use super::attribute::{Attribute, field};
use super::error::{NetlinkError, during};
use super::socket::Socket;

impl Socket {
    /// Makes a link. The other end of a veth is made in `other_netns`, or, if that is `None`, in the socket's namespace; and
    /// so is a child of a master, which itself is in the socket's namespace.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` when a name is taken, `EINVAL` for a link-layer address of other
    /// than six bytes, `EADDRNOTAVAIL` for a multicast one, `EOPNOTSUPP` for a kind that it does not have, or
    /// when a bridge is to filter VLANs and it cannot.
    pub fn create_link(&mut self, link: &NewLink, other_netns: Option<BorrowedFd<'_>>) -> Result<(), NetlinkError> {
        let NewLink { name, mac, mtu, if_present: _, kind } = link;
        let mut message = described(name, mac.as_ref(), *mtu);
        let info = match kind {
            LinkKind::Bridge { vlan_filtering } => bridge(*vlan_filtering),
            LinkKind::Veth { peer: VethPeer { ns: _, name, mac } } => {
                let mut peer = described(name, Some(mac), *mtu);
                peer.attributes.extend(other_netns.map(in_netns));
                vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)))]
            }
            LinkKind::Dummy => vec![LinkInfo::Kind(InfoKind::Dummy)],
            LinkKind::Ifb => vec![LinkInfo::Kind(InfoKind::Ifb)],
            LinkKind::Vrf { table } => {
                vec![LinkInfo::Kind(InfoKind::Vrf), LinkInfo::Data(InfoData::Vrf(vec![InfoVrf::TableId(*table)]))]
            }
            LinkKind::Child { master, kind } => {
                message.attributes.push(LinkAttribute::Link(master.index));
                message.attributes.extend(other_netns.map(in_netns));
                child_info(kind)
            }
            // The kernel makes none for netlink: `crate::tun` does.
            LinkKind::Tap { .. } => vec![LinkInfo::Kind(InfoKind::Tun)],
        };
        message.attributes.push(LinkAttribute::LinkInfo(info));
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(during(|| describe(name, kind)))
    }

    /// Gives a link another name. It must be down.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` when the name is taken, `EBUSY` when the link is up on older kernels.
    pub fn set_name(&mut self, index: u32, name: &IfName) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::IfName(name.to_string()))
            .map_err(during(|| format!("rename {} to {name}", self.label(index))))
    }

    /// Whether the kernel can create links of a kind, such as `dummy`. The request has a link-layer address of one
    /// byte, which no kind of Ethernet link accepts (for example `dummy_validate` in `drivers/net/dummy.c`), and no
    /// master, without which ipvlan is refused.
    pub fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Address(vec![2]));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::from(kind))]));
        match self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL) {
            Err(cause) if cause.errno() == Some(libc::EOPNOTSUPP) => Ok(false),
            Err(cause) if cause.errno() == Some(libc::EINVAL) => Ok(true),
            other => other.map(|()| true).map_err(during(|| format!("ask for links of kind {kind}"))),
        }
    }
}

fn in_netns(netns: BorrowedFd<'_>) -> LinkAttribute {
    LinkAttribute::NetNsFd(netns.as_raw_fd())
}

fn described(name: &IfName, mac: Option<&Mac>, mtu: Option<u32>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_string()));
    message.attributes.extend(mac.map(|mac| LinkAttribute::Address(mac.bytes().to_vec())));
    message.attributes.extend(mtu.map(LinkAttribute::Mtu));
    message
}

fn bridge(vlan_filtering: bool) -> Vec<LinkInfo> {
    let mut info = vec![LinkInfo::Kind(InfoKind::Bridge)];
    if vlan_filtering {
        info.push(LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::VlanFiltering(true)])));
    }
    info
}

fn describe(name: &IfName, kind: &LinkKind) -> String {
    match kind {
        LinkKind::Bridge { .. } => format!("create bridge {name}"),
        LinkKind::Veth { peer } => format!("create veth {name} with peer {}", peer.name),
        LinkKind::Dummy | LinkKind::Ifb | LinkKind::Vrf { .. } => format!("create {} {name}", kind.name()),
        LinkKind::Tap { .. } => format!("create tap {name}"),
        LinkKind::Child { master, kind } => format!("create {} {name} on {}", kind.name(), master.name),
    }
}

/// `IFLA_MACVLAN_MODE` of `linux/if_link.h`.
const MACVLAN_MODE: u16 = 1;
/// `IFLA_MACVLAN_BC_QUEUE_LEN` of `linux/if_link.h`, since Linux 5.11.
const MACVLAN_BC_QUEUE_LEN: u16 = 7;
/// `IFLA_VLAN_ID` of `linux/if_link.h`.
const VLAN_ID: u16 = 1;
/// `IFLA_IPVLAN_MODE` of `linux/if_link.h`.
const IPVLAN_MODE: u16 = 1;

/// The description of a new child.
fn child_info(kind: &ChildKind) -> Vec<LinkInfo> {
    match kind {
        ChildKind::Macvlan { mode, broadcast_queue } => {
            let mut data = vec![InfoMacVlan::Mode(mode.number().into())];
            let length = |packets: u32| DefaultNla::new(MACVLAN_BC_QUEUE_LEN, packets.to_ne_bytes().to_vec());
            data.extend(broadcast_queue.map(|packets| InfoMacVlan::Other(length(packets))));
            vec![LinkInfo::Kind(InfoKind::MacVlan), LinkInfo::Data(InfoData::MacVlan(data))]
        }
        ChildKind::Vlan { id } => {
            vec![LinkInfo::Kind(InfoKind::Vlan), LinkInfo::Data(InfoData::Vlan(vec![InfoVlan::Id(*id)]))]
        }
        // Without flags, which would be set for all links of the master.
        ChildKind::Ipvlan { mode } => {
            let data = vec![InfoIpVlan::Mode(mode.number().into())];
            vec![LinkInfo::Kind(InfoKind::IpVlan), LinkInfo::Data(InfoData::IpVlan(data))]
        }
    }
}

/// Decodes the properties of a link of one of these kinds.
pub(super) fn read_child(kind: &str, data: Attribute<'_>) -> Option<ChildKind> {
    match kind {
        "macvlan" => {
            let number = data.part(MACVLAN_MODE)?.u32()?;
            let mode = MacvlanMode::ALL.into_iter().find(|mode| mode.number() == number)?;
            let broadcast_queue = data.part(MACVLAN_BC_QUEUE_LEN).and_then(Attribute::u32);
            Some(ChildKind::Macvlan { mode, broadcast_queue })
        }
        "vlan" => Some(ChildKind::Vlan { id: u16::from_ne_bytes(field(data.part(VLAN_ID)?.value, 0)?) }),
        "ipvlan" => {
            let number = u16::from_ne_bytes(field(data.part(IPVLAN_MODE)?.value, 0)?);
            let mode = IpvlanMode::ALL.into_iter().find(|mode| mode.number() == number)?;
            Some(ChildKind::Ipvlan { mode })
        }
        _ => None,
    }
}

/// The properties of tap devices, since Linux 4.17: `IFLA_TUN_OWNER` of `linux/if_link.h`.
const TUN_OWNER: u16 = 1;
/// `IFLA_TUN_GROUP` of `linux/if_link.h`.
const TUN_GROUP: u16 = 2;
/// `IFLA_TUN_TYPE` of `linux/if_link.h`: `IFF_TUN` or `IFF_TAP`.
const TUN_TYPE: u16 = 3;
/// `IFLA_TUN_MULTI_QUEUE` of `linux/if_link.h`.
const TUN_MULTI_QUEUE: u16 = 7;

/// Decodes the properties of a device of kind `tun`; `None` unless it is a tap device.
pub(super) fn read_tap(data: Attribute<'_>) -> Option<TapOptions> {
    let number = |kind| data.part(kind).and_then(Attribute::u32);
    let is_tap = data.part(TUN_TYPE).and_then(Attribute::u8).map(i32::from) == Some(libc::IFF_TAP);
    let is_many = data.part(TUN_MULTI_QUEUE).and_then(Attribute::u8).is_some_and(|value| value != 0);
    let queues = if is_many { TapQueues::Many } else { TapQueues::One };
    is_tap.then(|| TapOptions { owner: number(TUN_OWNER), group: number(TUN_GROUP), queues })
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;

    use crate::netlink::attribute::{attributes, written};

    use super::*;

    /// The bytes of a description, and what is read of them.
    fn there_and_back(kind: &ChildKind) -> Option<ChildKind> {
        let info = child_info(kind);
        let mut bytes = vec![0; info.as_slice().buffer_len()];
        info.as_slice().emit(&mut bytes);
        let data = attributes(&bytes).find(|attribute| attribute.kind == libc::IFLA_INFO_DATA)?;
        read_child(kind.name(), data)
    }

    #[test]
    fn a_description_is_read_as_it_was_written() {
        for mode in MacvlanMode::ALL {
            for broadcast_queue in [None, Some(7), Some(u32::MAX)] {
                let kind = ChildKind::Macvlan { mode, broadcast_queue };
                assert_eq!(there_and_back(&kind), Some(kind));
            }
        }
        let vlans = [0, 1, 4094].map(|id| ChildKind::Vlan { id });
        let ipvlans = IpvlanMode::ALL.map(|mode| ChildKind::Ipvlan { mode });
        for kind in vlans.into_iter().chain(ipvlans) {
            assert_eq!(there_and_back(&kind), Some(kind));
        }
    }

    #[test]
    fn what_is_torn_or_of_another_kind_is_no_child() {
        let bytes = written(libc::IFLA_INFO_DATA, &written(MACVLAN_MODE, &[4]));
        let data = attributes(&bytes).next().expect("an attribute");
        for kind in ["macvlan", "ipvlan", "vlan", "veth"] {
            assert_eq!(read_child(kind, data), None, "{kind}");
        }
    }

    fn read(parts: &[(u16, &[u8])]) -> Option<TapOptions> {
        let inside: Vec<u8> = parts.iter().flat_map(|(kind, value)| written(*kind, value)).collect();
        let bytes = written(libc::IFLA_INFO_DATA, &inside);
        read_tap(attributes(&bytes).next().expect("an attribute"))
    }

    #[test]
    fn a_tap_is_distinguished_from_a_tun_and_who_may_open_it_is_read() {
        let owner = 1000_u32.to_ne_bytes();
        let many = TapOptions { owner: Some(1000), group: None, queues: TapQueues::Many };
        assert_eq!(read(&[(TUN_TYPE, &[2]), (TUN_OWNER, &owner), (TUN_MULTI_QUEUE, &[1])]), Some(many));
        assert_eq!(read(&[(TUN_TYPE, &[2]), (TUN_MULTI_QUEUE, &[0])]), Some(TapOptions::default()));
        assert_eq!(read(&[(TUN_TYPE, &[1]), (TUN_OWNER, &owner)]), None);
        assert_eq!(read(&[(TUN_OWNER, &owner)]), None);
        assert_eq!(read(&[(TUN_TYPE, &[])]), None);
    }
}
