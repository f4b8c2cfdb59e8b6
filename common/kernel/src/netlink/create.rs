//! Creates links: one request per link, with all its properties.

use std::os::fd::{AsRawFd, BorrowedFd};

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::plan::{LinkKind, NewLink, VethPeer};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, InfoVrf, LinkAttribute, LinkInfo, LinkMessage,
};

use super::child::child_info;
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
}

impl Socket {
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
