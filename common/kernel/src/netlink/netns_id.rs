//! The ids of network namespaces: see `ip-netns(8)`, `nsid`. A namespace can have an id in another one. With the id, a
//! socket can ask about a namespace to which no path leads.

use std::os::fd::{AsRawFd, BorrowedFd};

use cni_core::family::Family;
use cni_model::link::{Address, Link};
use cni_model::netns::NumberedLink;
use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};

use super::address::{address_family, by_family, read_address};
use super::attribute::find;
use super::error::{Cause, NetlinkError, accept, during};
use super::link::{question_about_all, question_about_index, question_about_kind, read_link, read_of_kind};
use super::socket::{Dump, Socket};

/// Length of `struct rtgenmsg`, padded.
const HEADER_LENGTH: usize = 4;
/// `NETNSA_NSID` of `linux/net_namespace.h`.
const NSID: u16 = 1;
/// A number that the kernel chooses.
const ANY_NUMBER: i32 = -1;
/// The index of `lo` in every namespace (`LOOPBACK_IFINDEX` of `linux/netdevice.h`).
const LO: u32 = 1;
/// `IFA_TARGET_NETNSID` of `linux/if_addr.h`, since Linux 4.20.
const TARGET_NETNSID: u16 = 10;

impl Socket {
    /// The number that the socket's namespace has for another one; `None` when it has none.
    pub fn netns_id(&mut self, netns: BorrowedFd<'_>) -> Result<Option<i32>, NetlinkError> {
        let mut question = NsidMessage::default();
        question.attributes.push(NsidAttribute::Fd(netns.as_raw_fd().unsigned_abs()));
        let read = |payload: &[u8]| Some(find(payload.get(HEADER_LENGTH..)?, NSID)?.netns_id());
        self.ask(RouteNetlinkMessage::GetNsId(question), read)
            .map_err(during(|| "look up the number of a network namespace".to_owned()))
    }

    /// Gives another namespace a number, unless it has one, so that a question can be about it for as long as it lives.
    pub fn number_netns(&mut self, netns: BorrowedFd<'_>) -> Result<(), NetlinkError> {
        self.request_number(netns, ANY_NUMBER).map_err(during(|| "give a network namespace a number".to_owned()))
    }

    /// Gives another namespace this number, or some number where this one is taken, unless it has one. Returns the number
    /// that it has.
    pub fn ensure_number(&mut self, netns: BorrowedFd<'_>, wanted: i32) -> Result<Option<i32>, NetlinkError> {
        for number in [wanted, ANY_NUMBER] {
            if let Some(number) = self.netns_id(netns)? {
                return Ok(Some(number));
            }
            self.request_number(netns, number)
                .map_err(during(|| format!("give a network namespace the number {number}")))?;
        }
        self.netns_id(netns)
    }

    /// The kernel says EEXIST where the namespace has a number already, and where another one has this number.
    fn request_number(&mut self, netns: BorrowedFd<'_>, number: i32) -> Result<(), Cause> {
        let mut change = NsidMessage::default();
        change.attributes.push(NsidAttribute::Fd(netns.as_raw_fd().unsigned_abs()));
        change.attributes.push(NsidAttribute::Id(number));
        accept(self.change(RouteNetlinkMessage::NewNsId(change), 0), &[libc::EEXIST], ())
    }

    /// Looks up the link of an index in the namespace of a number. The kernel answers EINVAL for a number that no living
    /// namespace has (`rtnl_get_net_ns_capable`).
    pub fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, NetlinkError> {
        match self.ask(RouteNetlinkMessage::GetLink(question_about_index(index, number)), read_link) {
            Ok(link) => Ok(NumberedLink::Link(Box::new(link))),
            Err(cause) if cause.errno() == Some(libc::ENODEV) => Ok(NumberedLink::NoLink),
            Err(cause) if cause.errno() == Some(libc::EINVAL) => Ok(NumberedLink::NoNamespace),
            Err(cause) => {
                Err(during(|| format!("look up link {index} of the network namespace with number {number}"))(cause))
            }
        }
    }

    /// Lists the links in the namespace of a number; `None` for a number that no living namespace has.
    pub fn numbered_links(&mut self, number: i32) -> Result<Option<Vec<Link>>, NetlinkError> {
        let links = self.dump(&RouteNetlinkMessage::GetLink(question_about_index(0, number)), read_link);
        accept(links.map(Some), &[libc::EINVAL], None)
            .map_err(during(|| format!("list the links of the network namespace with number {number}")))
    }

    /// Lists the links of a kind in the namespace of a number, or in the socket's own, without a repeat. A number that no
    /// living namespace has gives none. For no kind it lists hardware.
    pub fn links_once(&mut self, kind: Option<&str>, number: Option<i32>) -> Result<Dump<Link>, NetlinkError> {
        let question = match kind {
            Some(kind) => question_about_kind(kind, number),
            None => question_about_all(number),
        };
        let is_wanted = |link: &Link| link.kind.as_deref() == kind && link.index != LO;
        match self.dump_once(&RouteNetlinkMessage::GetLink(question), |payload| read_link(payload).filter(is_wanted)) {
            Err(cause) if cause.errno() == Some(libc::EINVAL) && number.is_some() => Ok(Dump::Whole(Vec::new())),
            result => result.map_err(during(|| format!("list the {} links", kind.unwrap_or("hardware")))),
        }
    }

    /// Lists the addresses in the namespace of a number; `None` for a number that no living namespace has.
    pub fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, NetlinkError> {
        let found = Family::ALL.into_iter().map(|family| self.addresses_elsewhere(number, None, family));
        let found = found.collect::<Result<Vec<_>, _>>().map(|found| Some(found.concat()));
        accept(found, &[libc::EINVAL], None)
            .map_err(during(|| format!("list the addresses of the network namespace with number {number}")))
    }

    /// Deletes the link of an index in the namespace of a number; absence of either is success.
    pub fn delete_numbered_link(&mut self, number: i32, index: u32) -> Result<(), NetlinkError> {
        let deleted = self.change(RouteNetlinkMessage::DelLink(question_about_index(index, number)), 0);
        accept(deleted, &[libc::ENODEV, libc::EINVAL], ())
            .map_err(during(|| format!("delete link {index} of the network namespace with number {number}")))
    }

    /// Finds a link of a kind in another namespace that has a number, whose master has this index in the socket's own
    /// namespace.
    pub fn child_elsewhere(
        &mut self,
        master: u32,
        kind: &'static str,
        own: BorrowedFd<'_>,
    ) -> Result<Option<Link>, NetlinkError> {
        for netns in self.numbered_netns()? {
            let question = RouteNetlinkMessage::GetLink(question_about_kind(kind, Some(netns)));
            // There are none in one that has lost its last user.
            let links = accept(self.dump(&question, read_of_kind(kind)), &[libc::EINVAL], Vec::new())
                .map_err(during(|| format!("list the {kind} links of network namespace {netns}")))?;
            // The answer to the first such question has given the socket's own namespace its number.
            if links.is_empty() {
                continue;
            }
            let own = self.netns_id(own)?;
            if let Some(link) = links.into_iter().find(|link| link.peer == Some(master) && link.peer_netns == own) {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    /// Lists the numbers that the socket's namespace has for others.
    pub fn numbered_netns(&mut self) -> Result<Vec<i32>, NetlinkError> {
        let read = |payload: &[u8]| find(payload.get(HEADER_LENGTH..)?, NSID)?.netns_id();
        self.dump(&RouteNetlinkMessage::GetNsId(NsidMessage::default()), read)
            .map_err(during(|| "list the network namespaces that have a number".to_owned()))
    }

    /// The addresses of the other end of a veth in another namespace; `None` when it is in the socket's own, or when
    /// its namespace has lost its last user: the kernel answers for no such one (`get_net_ns_by_id`).
    pub fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, NetlinkError> {
        let (Some(peer), Some(netns)) = (link.peer, link.peer_netns) else { return Ok(None) };
        let found = by_family(Family::ALL, |family| self.addresses_elsewhere(netns, Some(peer), family));
        accept(found, &[libc::EINVAL], None)
            .map_err(during(|| format!("list the addresses of the other end of {}", link.name)))
    }

    fn addresses_elsewhere(&mut self, netns: i32, link: Option<u32>, family: Family) -> Result<Vec<Address>, Cause> {
        let mut question = AddressMessage::default();
        question.header.family = address_family(family);
        question.header.index = link.unwrap_or_default();
        let target = DefaultNla::new(TARGET_NETNSID, netns.to_ne_bytes().to_vec());
        question.attributes.push(AddressAttribute::Other(target));
        let mut found = self.dump(&RouteNetlinkMessage::GetAddress(question), |bytes| read_address(bytes, link))?;
        found.retain(|address| address.cidr.family() == family);
        Ok(found)
    }
}
