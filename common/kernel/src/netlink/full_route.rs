//! Routes with all attributes that the kernel stores.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_model::routing::FullRoute;
use netlink_packet_core::{DefaultNla, NLM_F_CREATE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType};

use super::address::address_family;
use super::attribute::{Attribute, attributes, field, find};
use super::error::{NetlinkError, accept, during};
use super::route::{HEADER_LENGTH, HOP_LENGTH, set_table};
use super::socket::Socket;

/// `RTA_EXPIRES` and `RTA_NH_ID` of `linux/rtnetlink.h`.
const EXPIRES: u16 = 23;
const NEXT_HOP_ID: u16 = 30;
/// `RTNH_F_ONLINK` of `linux/rtnetlink.h`.
const ONLINK: u32 = 4;

/// Attributes that have their own field, or are only temporary: the remaining lifetime of a route, the object that a
/// next hop refers to.
const KNOWN: [u16; 10] = [
    libc::RTA_DST,
    libc::RTA_OIF,
    libc::RTA_GATEWAY,
    libc::RTA_PRIORITY,
    libc::RTA_PREFSRC,
    libc::RTA_MULTIPATH,
    libc::RTA_CACHEINFO,
    libc::RTA_TABLE,
    EXPIRES,
    NEXT_HOP_ID,
];

impl Socket {
    /// Lists the unicast routes of a family in one table; of those with several next hops each hop. Routes that ask for
    /// the source of a packet are left out.
    pub fn full_routes(&mut self, family: Family, table: u32) -> Result<Vec<FullRoute>, NetlinkError> {
        let mut question = RouteMessage::default();
        question.header.address_family = address_family(family);
        set_table(&mut question, table);
        let listed = self.dump(&RouteNetlinkMessage::GetRoute(question), |payload| read(payload, family));
        let listed = accept(listed, &[libc::ENOENT], Vec::new())
            .map_err(during(|| format!("list the IP{family} routes of table {table}")))?;
        Ok(listed.into_iter().flatten().filter(|route| route.table == table).collect())
    }

    /// Adds a route; other next hops to the same destination stay.
    ///
    /// # Errors
    /// When the kernel refuses: `EEXIST` for the very same route.
    pub fn add_full_route(&mut self, route: &FullRoute) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::NewRoute(message(route)), NLM_F_CREATE)
            .map_err(during(|| format!("add route {route}")))
    }

    /// Removes a route.
    ///
    /// # Errors
    /// If the kernel refuses: `ESRCH` if it does not exist.
    pub fn remove_full_route(&mut self, route: &FullRoute) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelRoute(message(route)), 0)
            .map_err(during(|| format!("remove route {route}")))
    }
}

fn message(route: &FullRoute) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(route.dst.family());
    message.header.destination_prefix_length = route.dst.prefix();
    message.header.tos = route.tos;
    message.header.protocol = RouteProtocol::from(route.protocol);
    message.header.scope = RouteScope::from(route.scope);
    message.header.kind = RouteType::Unicast;
    message.header.flags.set(RouteFlags::Onlink, route.onlink);
    set_table(&mut message, route.table);
    message.attributes.push(RouteAttribute::Destination(route.dst.address().into()));
    message.attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
    message.attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    message.attributes.push(RouteAttribute::Oif(route.link));
    message.attributes.extend(Some(route.metric).filter(|metric| *metric != 0).map(RouteAttribute::Priority));
    let others = route.attributes.iter().map(|(kind, value)| DefaultNla::new(*kind, value.clone()));
    message.attributes.extend(others.map(RouteAttribute::Other));
    message
}

/// The next hops of a route; none of one that is not listed.
fn read(payload: &[u8], family: Family) -> Option<Vec<FullRoute>> {
    let [number, prefix, source_prefix, tos, table, protocol, scope, kind] = field(payload, 0)?;
    let flags = field(payload, 8).map(u32::from_ne_bytes)?;
    let is_listed = number == u8::from(address_family(family)) && kind == libc::RTN_UNICAST && source_prefix == 0;
    if !is_listed || flags & libc::RTM_F_CLONED != 0 {
        return None;
    }
    let attributes: Vec<Attribute<'_>> = attributes(payload.get(HEADER_LENGTH..)?).collect();
    let part = |kind| attributes.iter().find(|attribute| attribute.kind == kind);
    let number = |kind| part(kind).and_then(|attribute| attribute.u32());
    let ip = |kind| part(kind).and_then(|attribute| attribute.ip());
    let others = attributes.iter().filter(|attribute| !KNOWN.contains(&attribute.kind));
    let first = FullRoute {
        dst: Cidr::new(ip(libc::RTA_DST).unwrap_or_else(|| family.unspecified()), prefix)?,
        gateway: ip(libc::RTA_GATEWAY),
        source: ip(libc::RTA_PREFSRC),
        link: number(libc::RTA_OIF).unwrap_or_default(),
        table: number(libc::RTA_TABLE).unwrap_or(table.into()),
        metric: number(libc::RTA_PRIORITY).unwrap_or_default(),
        scope,
        protocol,
        tos,
        onlink: flags & ONLINK != 0,
        is_one_of_several: false,
        attributes: others.map(|attribute| (attribute.kind, attribute.value.to_vec())).collect(),
    };
    Some(match part(libc::RTA_MULTIPATH) {
        Some(hops) => hops_of(hops.value).map(|hop| hop.of(&first)).collect(),
        None => vec![first],
    })
}

/// A next hop of several.
struct NextHop {
    link: u32,
    gateway: Option<IpAddr>,
    onlink: bool,
}

impl NextHop {
    fn of(&self, route: &FullRoute) -> FullRoute {
        let Self { link, gateway, onlink } = *self;
        FullRoute { link, gateway, onlink, is_one_of_several: true, ..route.clone() }
    }
}

fn hops_of(mut hops: &[u8]) -> impl Iterator<Item = NextHop> {
    std::iter::from_fn(move || {
        let [low, high, flags, _] = field(hops, 0)?;
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let link = field(hops, 4).map(u32::from_ne_bytes)?;
        let gateway = find(hops.get(HOP_LENGTH..length)?, libc::RTA_GATEWAY);
        hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(NextHop { link, gateway: gateway.and_then(Attribute::ip), onlink: u32::from(flags) & ONLINK != 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::written;
    use netlink_packet_core::Emitable;
    use proptest::prelude::*;

    fn there_and_back(route: &FullRoute) -> Option<Vec<FullRoute>> {
        let message = message(route);
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        read(&bytes, route.dst.family())
    }

    fn route() -> FullRoute {
        let gateway = IpAddr::from([10, 1, 2, 1]);
        FullRoute { dst: "10.9.0.0/16".parse().expect("CIDR"), ..FullRoute::default_by(gateway, 7, 254) }
    }

    proptest! {
        #[test]
        fn a_route_is_read_as_it_was_written(
            table in 1..u32::MAX,
            metric in any::<u32>(),
            [scope, protocol, tos] in any::<[u8; 3]>(),
            onlink in any::<bool>(),
            source in any::<Option<[u8; 4]>>(),
            value in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let (source, attributes) = (source.map(IpAddr::from), vec![(libc::RTA_METRICS, value)]);
            let route = FullRoute { table, metric, scope, protocol, tos, onlink, source, attributes, ..route() };
            prop_assert_eq!(there_and_back(&route), Some(vec![route]));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            for family in Family::ALL {
                let _ = read(&bytes, family);
            }
        }
    }

    #[test]
    fn each_hop_of_several_is_a_route_of_its_own() {
        let hop = |link: u32, flags: u8, last: u8| {
            let gateway = written(libc::RTA_GATEWAY, &[10, 1, 2, last]);
            [&[16, 0, flags, 0], &link.to_ne_bytes()[..], &gateway].concat()
        };
        let several = written(libc::RTA_MULTIPATH, &[hop(3, 0, 1), hop(4, 4, 2)].concat());
        let bytes = [&[2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0][..], &several].concat();
        let read = read(&bytes, Family::V4).expect("routes");
        let seen: Vec<_> = read.iter().map(|hop| (hop.link, hop.gateway, hop.onlink, hop.is_one_of_several)).collect();
        let gateway = |last| Some(IpAddr::from([10, 1, 2, last]));
        assert_eq!(seen, [(3, gateway(1), false, true), (4, gateway(2), true, true)]);
    }

    #[test]
    fn what_is_no_way_out_is_left_out() {
        for (kind, flags) in [(libc::RTN_BLACKHOLE, 0), (libc::RTN_LOCAL, 0), (libc::RTN_UNICAST, libc::RTM_F_CLONED)] {
            let bytes = [&[2, 0, 0, 0, 254, 3, 0, kind][..], &flags.to_ne_bytes()].concat();
            assert_eq!(read(&bytes, Family::V4), None);
        }
    }
}
