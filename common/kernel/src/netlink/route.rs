//! Routes: lists a table, looks up the route to an address, and changes one.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_model::link::KernelRoute;
use cni_model::plan::NewRoute;
use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};

use super::address::address_family;
use super::attribute::{Attribute, attributes, field, find};
use super::error::{Cause, NetlinkError, accept, during};
use super::socket::Socket;

/// Length of `struct rtmsg`.
pub(super) const HEADER_LENGTH: usize = 12;
/// Length of `struct rtnexthop`.
pub(super) const HOP_LENGTH: usize = 8;

/// The kernel's errors for an address without a route, or with one that refuses packets: none, unreachable,
/// prohibited, black hole.
const UNREACHABLE: [i32; 4] = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL];

impl Socket {
    /// Lists the routes of a family, of any type, in one table or in all.
    pub fn routes(&mut self, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, NetlinkError> {
        let mut question = RouteMessage::default();
        question.header.address_family = address_family(family);
        if let Some(table) = table {
            set_table(&mut question, table);
        }
        let found = self.dump(&RouteNetlinkMessage::GetRoute(question), |payload| read_route(payload, family));
        let mut found =
            accept(found, &[libc::ENOENT], Vec::new()).map_err(during(|| format!("list the IP{family} routes")))?;
        found.retain(|route| table.is_none_or(|table| table == route.table));
        Ok(found)
    }

    /// Returns the link through which packets to an address leave; `None` without a route.
    pub fn route_to(&mut self, address: IpAddr) -> Result<Option<u32>, NetlinkError> {
        let link = self.ask(RouteNetlinkMessage::GetRoute(question_about(address)), read_output);
        accept(link, &[libc::ENETUNREACH, libc::EHOSTUNREACH], None)
            .map_err(during(|| format!("look up the route to {address}")))
    }

    /// Looks up the route to exactly this address; `None` if there is only a route to a network that contains it, or if
    /// packets to it are refused.
    pub fn exact_route(&mut self, address: IpAddr) -> Result<Option<KernelRoute>, NetlinkError> {
        let cidr = Cidr::host(address);
        let mut question = question_about(address);
        question.header.flags = RouteFlags::FibMatch;
        let route = self.ask(RouteNetlinkMessage::GetRoute(question), |payload| read_route(payload, cidr.family()));
        accept(route.map(|route| Some(route).filter(|route| route.dst == cidr)), &UNREACHABLE, None)
            .map_err(during(|| format!("look up the route to exactly {address}")))
    }

    /// Returns whether packets to an address are for the host itself: the address type `LOCAL` of the packet filter. If a link is given by
    /// its index, only its route counts: other links may have the same address, and the routes of a link in a VRF are in the VRF's table.
    ///
    /// # Errors
    /// When the kernel refuses. An address without a route is not an error.
    pub fn is_local(&mut self, address: IpAddr, link: Option<u32>) -> Result<bool, NetlinkError> {
        let mut question = question_about(address);
        question.attributes.extend(link.map(RouteAttribute::Oif));
        let kind = self.ask(RouteNetlinkMessage::GetRoute(question), read_type);
        accept(kind.map(|kind| kind == libc::RTN_LOCAL), &UNREACHABLE, false)
            .map_err(during(|| format!("look up the route to {address}")))
    }

    /// Lists the networks of a family that belong to the host itself: its addresses, each as a network with a
    /// full-length prefix, and local routes that an administrator has added.
    pub fn local_networks(&mut self, family: Family) -> Result<Vec<Cidr>, NetlinkError> {
        let mut question = RouteMessage::default();
        question.header.address_family = address_family(family);
        question.header.kind = RouteType::Local;
        set_table(&mut question, libc::RT_TABLE_LOCAL.into());
        let read = |payload: &[u8]| {
            let route = read_route(payload, family)?;
            let is_local = route.table == u32::from(libc::RT_TABLE_LOCAL) && read_type(payload)? == libc::RTN_LOCAL;
            is_local.then_some(route.dst)
        };
        let found = self.dump(&RouteNetlinkMessage::GetRoute(question), read);
        found.map_err(during(|| format!("list the local IP{family} addresses")))
    }

    /// Adds a route through the link of an index. Unlike with `ip route add`, a second route to the same destination
    /// may exist beside the first.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` for the very same route, `ENETUNREACH` when the gateway is on no
    /// link; or when destination and gateway are of different families.
    pub fn add_route(&mut self, link: u32, route: &NewRoute) -> Result<(), NetlinkError> {
        route_message(link, route)
            .and_then(|message| self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE))
            .map_err(during(|| describe("add", link, route)))
    }

    /// Removes a route through a link; returns whether it existed.
    pub fn remove_route(&mut self, link: u32, route: &NewRoute) -> Result<bool, NetlinkError> {
        let removed = route_message(link, route).and_then(|message| self.remove_if_present(message));
        removed.map_err(during(|| describe("remove", link, route)))
    }

    /// Removes the route that the kernel added for the network of a link's address, and no other route to that network;
    /// returns whether it existed.
    pub fn remove_connected_route(&mut self, link: u32, dst: Cidr) -> Result<bool, NetlinkError> {
        let route = NewRoute { scope: Some(libc::RT_SCOPE_LINK), ..NewRoute::to(dst) };
        let removed = route_message(link, &route).and_then(|mut message| {
            message.header.protocol = RouteProtocol::Kernel;
            self.remove_if_present(message)
        });
        removed.map_err(during(|| describe("remove the kernel's", link, &route)))
    }

    fn remove_if_present(&mut self, message: RouteMessage) -> Result<bool, Cause> {
        let removed = self.change(RouteNetlinkMessage::DelRoute(message), 0);
        accept(removed.map(|()| true), &[libc::ESRCH, libc::ENODEV], false)
    }
}

fn describe(verb: &str, link: u32, route: &NewRoute) -> String {
    let via = route.gw.map(|gw| format!(" via {gw}")).unwrap_or_default();
    format!("{verb} route {}{via} through link {link}", route.dst)
}

fn route_message(link: u32, route: &NewRoute) -> Result<RouteMessage, Cause> {
    let NewRoute { dst, gw, source, table, priority, scope, mtu, advmss, onlink } = *route;
    // The kernel would read the first bytes of an IPv6 gateway as an IPv4 one.
    if [gw, source].into_iter().flatten().any(|address| Family::of(address) != dst.family()) {
        return Err(Cause::MixedFamilies);
    }
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(dst.family());
    message.header.destination_prefix_length = dst.prefix();
    message.header.protocol = RouteProtocol::Boot;
    message.header.scope = RouteScope::from(scope.unwrap_or_default());
    message.header.kind = RouteType::Unicast;
    set_table(&mut message, table.unwrap_or_else(|| RouteHeader::RT_TABLE_MAIN.into()));
    message.attributes.push(RouteAttribute::Destination(dst.address().into()));
    message.attributes.extend(gw.map(|gw| RouteAttribute::Gateway(gw.into())));
    message.header.flags.set(RouteFlags::Onlink, onlink);
    message.attributes.extend(source.map(|source| RouteAttribute::PrefSource(source.into())));
    message.attributes.push(RouteAttribute::Oif(link));
    message.attributes.extend(priority.map(RouteAttribute::Priority));
    let metrics = [mtu.map(RouteMetric::Mtu), advmss.map(RouteMetric::Advmss)];
    let metrics: Vec<_> = metrics.into_iter().flatten().collect();
    if !metrics.is_empty() {
        message.attributes.push(RouteAttribute::Metrics(metrics));
    }
    Ok(message)
}

/// Sets the table: in the header if it fits there, otherwise in an attribute, as `ip` does.
pub(super) fn set_table(message: &mut RouteMessage, table: u32) {
    match u8::try_from(table) {
        Ok(table) => message.header.table = table,
        Err(_) => message.attributes.push(RouteAttribute::Table(table)),
    }
}

fn read_route(payload: &[u8], family: Family) -> Option<KernelRoute> {
    let [number, prefix, _, _, table] = field(payload, 0)?;
    let flags = field(payload, 8).map(u32::from_ne_bytes)?;
    if number != u8::from(address_family(family)) || flags & libc::RTM_F_CLONED != 0 {
        return None;
    }
    let (mut dst, mut gateways, mut links, mut table) =
        (family.unspecified(), Vec::new(), Vec::new(), u32::from(table));
    for attribute in attributes(payload.get(HEADER_LENGTH..)?) {
        match attribute.kind {
            libc::RTA_DST => dst = attribute.ip()?,
            libc::RTA_GATEWAY => gateways.extend(attribute.ip()),
            libc::RTA_OIF => links.extend(attribute.link_index()),
            libc::RTA_TABLE => table = attribute.u32().unwrap_or(table),
            libc::RTA_MULTIPATH => read_hops(attribute.value, &mut gateways, &mut links),
            _ => (),
        }
    }
    links.dedup();
    let unicast = read_type(payload)? == libc::RTN_UNICAST;
    Some(KernelRoute { dst: Cidr::new(dst, prefix)?, gateways, links, table, unicast })
}

fn read_hops(mut hops: &[u8], gateways: &mut Vec<IpAddr>, links: &mut Vec<u32>) {
    while let (Some(length), Some(link)) = (field(hops, 0), field(hops, 4)) {
        let length = usize::from(u16::from_ne_bytes(length));
        let Some(inner) = hops.get(HOP_LENGTH..length) else { return };
        links.push(u32::from_ne_bytes(link));
        gateways.extend(
            attributes(inner).filter(|attribute| attribute.kind == libc::RTA_GATEWAY).filter_map(Attribute::ip),
        );
        hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// Asks for the route of packets to an address.
fn question_about(address: IpAddr) -> RouteMessage {
    let cidr = Cidr::host(address);
    let mut question = RouteMessage::default();
    question.header.address_family = address_family(cidr.family());
    question.header.destination_prefix_length = cidr.prefix();
    question.attributes.push(RouteAttribute::Destination(address.into()));
    question
}

/// The type of a route, `rtm_type`.
fn read_type(payload: &[u8]) -> Option<u8> {
    field(payload, 7).map(u8::from_ne_bytes)
}

/// The output link; `Some(None)` for a route that rejects packets.
fn read_output(payload: &[u8]) -> Option<Option<u32>> {
    let kind = read_type(payload)?;
    let output = find(payload.get(HEADER_LENGTH..)?, libc::RTA_OIF);
    let rejects = matches!(kind, libc::RTN_UNREACHABLE | libc::RTN_BLACKHOLE | libc::RTN_PROHIBIT);
    Some(output.and_then(Attribute::link_index).filter(|_| !rejects))
}

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
        match self.ask(RouteNetlinkMessage::GetRoute(message), read_answer) {
            Ok(answer) => Ok(answer),
            Err(cause) => match cause.errno() {
                Some(number) => Ok(RouteAnswer::Refused(number)),
                None => Err(during(|| format!("look up the route to {to}"))(cause)),
            },
        }
    }
}

fn read_answer(payload: &[u8]) -> Option<RouteAnswer> {
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
mod tests;
