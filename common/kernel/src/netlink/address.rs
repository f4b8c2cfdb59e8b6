//! The addresses of links.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_model::link::Address;
use cni_model::plan::Dad;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::attribute::{attributes, field};
use super::error::{Cause, NetlinkError, during};
use super::socket::Socket;

/// Length of `struct ifaddrmsg`.
const HEADER_LENGTH: usize = 8;
/// `IFA_FLAGS` of `linux/if_addr.h`: all 32 flags, where the header holds the first eight.
const FLAGS: u16 = 8;

impl Socket {
    /// Lists the addresses of a link, or of all links for `None`: those of one family or of both, IPv4 first. A link that does not exist
    /// has none.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn addresses(
        &mut self,
        link: impl Into<Option<u32>>,
        family: Option<Family>,
    ) -> Result<Vec<Address>, NetlinkError> {
        let link = link.into();
        let found = match self.dump_addresses(link, family) {
            Err(cause) if link.is_some() && cause.errno() == Some(libc::ENODEV) => {
                let families = Family::ALL.into_iter().filter(|one| family.is_none_or(|family| family == *one));
                by_family(families, |one| self.dump_addresses(link, Some(one))).map(Option::unwrap_or_default)
            }
            found => found,
        };
        found.map_err(during(|| match link {
            Some(index) => format!("list the addresses of {}", self.label(index)),
            None => "list the addresses of all links".to_owned(),
        }))
    }

    fn dump_addresses(&mut self, link: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Cause> {
        let mut question = AddressMessage::default();
        question.header.family = family.map_or(AddressFamily::Unspec, address_family);
        question.header.index = link.unwrap_or_default();
        let mut found = self.dump(&RouteNetlinkMessage::GetAddress(question), |payload| read_address(payload, link))?;
        found.retain(|address| family.is_none_or(|family| family == address.cidr.family()));
        found.sort_by_key(|address| address.cidr.family());
        Ok(found)
    }

    /// Adds an address to a link: of global scope, with a broadcast address where the network has one.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` when the link has the address, `EACCES` when the link has no IPv6.
    pub fn add_address(&mut self, index: u32, cidr: Cidr, dad: Dad) -> Result<(), NetlinkError> {
        let mut message = address_message(index, cidr);
        match cidr.last() {
            IpAddr::V4(last) if cidr.prefix() < 31 => message.attributes.push(AddressAttribute::Broadcast(last)),
            IpAddr::V6(_) if dad == Dad::Skip => message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad)),
            IpAddr::V4(_) | IpAddr::V6(_) => (),
        }
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL).map_err(|cause| {
            // An address that exists is usual, and not worth another question.
            let exists = cause.errno() == Some(libc::EEXIST);
            let link = if exists { format!("link {index}") } else { self.label(index) };
            during(|| format!("add address {cidr} to {link}"))(cause)
        })
    }

    /// Removes an address from a link; it is not an error if the address or the link is absent.
    pub fn remove_address(&mut self, index: u32, cidr: Cidr) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelAddress(address_message(index, cidr)), 0)
            .or_else(|cause| match cause.errno() {
                Some(libc::EADDRNOTAVAIL | libc::ENODEV) => Ok(()),
                _ => Err(cause),
            })
            .map_err(during(|| format!("remove address {cidr} from {}", self.label(index))))
    }
}

/// Asks for the addresses of a link in each of some families alone. The kernel refuses (`ENODEV`) if the link does not exist; some kernels
/// also do if a family is turned off on it, even though it has addresses of the other one. Returns `None` if all are refused.
pub(super) fn by_family(
    families: impl IntoIterator<Item = Family>,
    mut ask: impl FnMut(Family) -> Result<Vec<Address>, Cause>,
) -> Result<Option<Vec<Address>>, Cause> {
    let mut found = None;
    for family in families {
        match ask(family) {
            Err(cause) if cause.errno() == Some(libc::ENODEV) => {}
            addresses => found.get_or_insert_with(Vec::new).extend(addresses?),
        }
    }
    Ok(found)
}

/// The number of a family in messages.
pub(super) const fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

fn address_message(index: u32, cidr: Cidr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = address_family(cidr.family());
    message.header.prefix_len = cidr.prefix();
    message.header.index = index;
    message.attributes.push(AddressAttribute::Local(cidr.address()));
    message.attributes.push(AddressAttribute::Address(cidr.address()));
    message
}

pub(super) fn read_address(payload: &[u8], link: Option<u32>) -> Option<Address> {
    let [_, prefix, flags, _] = field(payload, 0)?;
    let index = field(payload, 4).map(u32::from_ne_bytes)?;
    if link.is_some_and(|link| link != index) {
        return None;
    }
    let (mut local, mut other, mut flags) = (None, None, u32::from(flags));
    for attribute in attributes(payload.get(HEADER_LENGTH..)?) {
        match attribute.kind {
            libc::IFA_LOCAL => local = attribute.ip(),
            libc::IFA_ADDRESS => other = attribute.ip(),
            FLAGS => flags = attribute.u32().unwrap_or(flags),
            _ => (),
        }
    }
    Some(Address {
        // IFA_ADDRESS is the other end of a point-to-point link, where there is one.
        cidr: Cidr::new(local.or(other)?, prefix)?,
        tentative: flags & libc::IFA_F_TENTATIVE != 0,
        dad_failed: flags & libc::IFA_F_DADFAILED != 0,
    })
}

#[cfg(test)]
mod tests;
