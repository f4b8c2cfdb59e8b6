//! Pairs of veth links, each end born in its namespace: nothing is moved or renamed afterwards.

use std::os::fd::{AsRawFd, BorrowedFd};

use cni_core::mac::Mac;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage};

use super::error::{NetlinkError, during};
use super::socket::Socket;

/// A pair of veth links to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewVeth<'a> {
    /// Name of the end in the namespace of the socket.
    pub name: &'a str,
    /// Link-layer address of that end.
    pub mac: &'a Mac,
    /// MTU of both ends; the kernel's default if none.
    pub mtu: Option<u32>,
    /// Name of the other end.
    pub peer_name: &'a str,
    /// Link-layer address of the other end.
    pub peer_mac: &'a Mac,
    /// Network namespace of the other end.
    pub peer_netns: BorrowedFd<'a>,
}

impl Socket {
    /// Makes a pair of veth links.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` when either name is taken, `EINVAL` for an address of other
    /// than six bytes, `EADDRNOTAVAIL` for a multicast one.
    pub fn create_veth(&mut self, veth: &NewVeth<'_>) -> Result<(), NetlinkError> {
        let NewVeth { name, mac, mtu, peer_name, peer_mac, peer_netns } = *veth;
        let mut peer = end(peer_name, peer_mac, mtu);
        peer.attributes.push(LinkAttribute::NetNsFd(peer_netns.as_raw_fd()));
        let mut message = end(name, mac, mtu);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(during(|| format!("create veth {name} with peer {peer_name}")))
    }
}

fn end(name: &str, mac: &Mac, mtu: Option<u32>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    message.attributes.push(LinkAttribute::Address(mac.bytes().to_vec()));
    message.attributes.extend(mtu.map(LinkAttribute::Mtu));
    message
}
