//! The numbers that a network namespace has for others: see `ip-netns(8)`, `nsid`. By one of them a socket is answered
//! about a namespace that it does not belong to, and to which no path may lead any more.

use std::os::fd::{AsRawFd, BorrowedFd};

use cni_core::family::Family;
use cni_plugin::link::{Address, Link};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};

use super::address::{address_family, read_address};
use super::attribute::attributes;
use super::error::{Cause, NetlinkError, during};
use super::socket::Socket;

/// Length of `struct rtgenmsg`, padded.
const HEADER_LENGTH: usize = 4;
/// `NETNSA_NSID` of `linux/net_namespace.h`.
const NSID: u16 = 1;
/// `IFA_TARGET_NETNSID` of `linux/if_addr.h`, since Linux 4.20.
const TARGET_NETNSID: u16 = 10;

impl Socket {
    /// The number that the socket's namespace has for another one; `None` when it has none.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn netns_id(&mut self, netns: BorrowedFd<'_>) -> Result<Option<i32>, NetlinkError> {
        let mut question = NsidMessage::default();
        question.attributes.push(NsidAttribute::Fd(netns.as_raw_fd().unsigned_abs()));
        let read = |payload: &[u8]| {
            let id = attributes(payload.get(HEADER_LENGTH..)?).find(|attribute| attribute.kind == NSID)?;
            Some(id.netns_id())
        };
        self.ask(RouteNetlinkMessage::GetNsId(question), read)
            .map_err(during(|| "look up the number of a network namespace".to_owned()))
    }

    /// The addresses of the other end of a veth in another namespace; `None` when it is in the socket's own, or when
    /// its namespace has lost its last user: the kernel answers for no such one (`get_net_ns_by_id`).
    ///
    /// # Errors
    /// When the kernel refuses for another reason.
    pub fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, NetlinkError> {
        let (Some(peer), Some(netns)) = (link.peer, link.peer_netns) else { return Ok(None) };
        let mut found = Vec::new();
        for family in Family::ALL {
            match self.addresses_elsewhere(netns, peer, family) {
                Ok(addresses) => found.extend(addresses),
                Err(cause) if matches!(cause.errno(), Some(libc::EINVAL | libc::ENODEV)) => return Ok(None),
                Err(cause) => {
                    let asked = || format!("list the addresses of the other end of {}", link.name);
                    return Err(during(asked)(cause));
                }
            }
        }
        Ok(Some(found))
    }

    fn addresses_elsewhere(&mut self, netns: i32, link: u32, family: Family) -> Result<Vec<Address>, Cause> {
        let mut question = AddressMessage::default();
        question.header.family = address_family(family);
        question.header.index = link;
        let target = DefaultNla::new(TARGET_NETNSID, netns.to_ne_bytes().to_vec());
        question.attributes.push(AddressAttribute::Other(target));
        let mut found =
            self.dump(&RouteNetlinkMessage::GetAddress(question), |bytes| read_address(bytes, Some(link)))?;
        found.retain(|address| address.cidr.family() == family);
        Ok(found)
    }
}
