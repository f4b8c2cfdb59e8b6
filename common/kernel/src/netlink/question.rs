//! The question what the kernel does with a packet: where it goes, or why it goes nowhere.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAttribute, RouteMessage};

use super::address::address_family;
use super::attribute::{attributes, field};
use super::error::{NetlinkError, during};
use super::route::HEADER_LENGTH;
use super::socket::Socket;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuestion {
    pub to: IpAddr,
    /// Its source, of the same family.
    pub from: Option<IpAddr>,
    /// The index of the link by which it comes; `None` for one that the machine itself sends.
    pub input: Option<u32>,
}

/// What the kernel does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAnswer {
    /// It is for the machine itself.
    Local,
    /// It leaves by the link of an index, to the next router if there is one.
    By { link: u32, gateway: Option<IpAddr> },
    /// It is dropped, with this error number: `EXDEV` for a source that is expected elsewhere (rp_filter), `EINVAL` since
    /// Linux 6.14; `ENETUNREACH` and `EHOSTUNREACH` where there is no way or no forwarding.
    Refused(i32),
}

impl Socket {
    /// Asks what the kernel does with a packet.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn route_of(&mut self, question: RouteQuestion) -> Result<RouteAnswer, NetlinkError> {
        let RouteQuestion { to, from, input } = question;
        let mut message = RouteMessage::default();
        let destination = Cidr::host(to);
        message.header.address_family = address_family(destination.family());
        message.header.destination_prefix_length = destination.prefix();
        message.attributes.push(RouteAttribute::Destination(to.into()));
        if let Some(from) = from {
            message.header.source_prefix_length = Cidr::host(from).prefix();
            message.attributes.push(RouteAttribute::Source(from.into()));
        }
        message.attributes.extend(input.map(RouteAttribute::Iif));
        match self.ask(RouteNetlinkMessage::GetRoute(message), read) {
            Ok(answer) => Ok(answer),
            Err(cause) => match cause.errno() {
                Some(number) => Ok(RouteAnswer::Refused(number)),
                None => Err(during(|| format!("look up the route to {to}"))(cause)),
            },
        }
    }
}

fn read(payload: &[u8]) -> Option<RouteAnswer> {
    let [kind] = field(payload, 7)?;
    let (mut link, mut gateway) = (None, None);
    for attribute in attributes(payload.get(HEADER_LENGTH..)?) {
        match attribute.kind {
            libc::RTA_OIF => link = attribute.link_index(),
            libc::RTA_GATEWAY => gateway = attribute.ip(),
            _ => {}
        }
    }
    Some(match (kind, link) {
        (libc::RTN_LOCAL, _) => RouteAnswer::Local,
        (libc::RTN_UNREACHABLE, _) => RouteAnswer::Refused(libc::EHOSTUNREACH),
        (libc::RTN_PROHIBIT, _) => RouteAnswer::Refused(libc::EACCES),
        (libc::RTN_BLACKHOLE, _) => RouteAnswer::Refused(libc::EINVAL),
        (_, Some(link)) => RouteAnswer::By { link, gateway },
        (_, None) => RouteAnswer::Refused(libc::ENETUNREACH),
    })
}

#[cfg(test)]
mod tests {
    use super::super::attribute::written;
    use super::*;

    fn answer(kind: u8, attributes: &[Vec<u8>]) -> Option<RouteAnswer> {
        let header = [libc::AF_INET as u8, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0].to_vec();
        read(&[header, attributes.concat()].concat())
    }

    #[test]
    fn an_answer_is_a_link_or_a_refusal() {
        let link = written(libc::RTA_OIF, &3_u32.to_ne_bytes());
        let gateway = written(libc::RTA_GATEWAY, &[192, 0, 2, 1]);
        let by = |gateway| Some(RouteAnswer::By { link: 3, gateway });
        assert_eq!(answer(libc::RTN_UNICAST, &[link.clone(), gateway]), by(Some(IpAddr::from([192, 0, 2, 1]))));
        assert_eq!(answer(libc::RTN_UNICAST, std::slice::from_ref(&link)), by(None));
        assert_eq!(answer(libc::RTN_LOCAL, std::slice::from_ref(&link)), Some(RouteAnswer::Local));
        assert_eq!(answer(libc::RTN_UNICAST, &[]), Some(RouteAnswer::Refused(libc::ENETUNREACH)));
        assert_eq!(answer(libc::RTN_PROHIBIT, &[link]), Some(RouteAnswer::Refused(libc::EACCES)));
        assert_eq!(read(&[1, 2]), None);
    }
}
