//! Neighbours: which link-layer addresses the kernel has found for the hosts on a link.

use std::net::IpAddr;

use cni_core::family::Family;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage};

use super::address::address_family;
use super::error::{NetlinkError, during};
use super::socket::Socket;

impl Socket {
    /// Deletes the kernel's entry of a neighbour; it is not an error if the entry or the link is absent.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete_neighbour(&mut self, index: u32, address: IpAddr) -> Result<(), NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = address_family(Family::of(address));
        message.header.ifindex = index;
        message.attributes.push(NeighbourAttribute::Destination(address.into()));
        self.change(RouteNetlinkMessage::DelNeighbour(message), 0)
            .or_else(|cause| match cause.errno() {
                Some(libc::ENOENT | libc::ENODEV) => Ok(()),
                _ => Err(cause),
            })
            .map_err(during(|| format!("delete neighbour {address} of link {index}")))
    }
}
