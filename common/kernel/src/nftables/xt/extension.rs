//! Extensions of x_tables, as their C structures are stored in a rule: name, revision and bytes.
//!
//! Numbers are in the byte order of the host; ports are in that of the packet where the kernel's structure says so.
//! Each structure is padded to eight bytes, as `XT_ALIGN` does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use cni_core::family::Family;
use cni_core::names::Comment;
use cni_netfilter::Proto;
use cni_netfilter::iptables::{Mark, Match, PortRange, PortSet, Target, UidRange};

use crate::netlink::attribute::field;
use crate::nftables::compile::{octets, transport_number};

/// An extension of x_tables in a rule of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The name of the match or the target.
    pub name: String,
    /// The version of its structure.
    pub revision: u32,
    /// The structure.
    pub info: Vec<u8>,
}

/// `XT_MAX_COMMENT_LEN` of `linux/netfilter/xt_comment.h`.
const COMMENT: usize = 256;

/// `struct xt_conntrack_mtinfo3`: the flags that count, and the states, of `linux/netfilter/xt_conntrack.h`.
const CONNTRACK: usize = 168;
const CONNTRACK_FLAGS: usize = 146;
const CONNTRACK_STATES: usize = 150;
/// `XT_CONNTRACK_STATE`.
const STATE_COUNTS: u16 = 1;
/// `XT_CONNTRACK_STATE_BIT` of an established connection and of one that is related to another.
const ESTABLISHED_RELATED: u16 = 6;

/// `struct xt_addrtype_info_v1`, and `RTN_LOCAL` as a bit of it.
const ADDRESS_TYPE: usize = 8;
const LOCAL: u16 = 1 << 2;

/// `struct xt_multiport_v1`, and `XT_MULTIPORT_DESTINATION`.
const MULTIPORT: usize = 48;
const DESTINATION_PORTS: u8 = 1;

/// `struct xt_tcp` and `struct xt_udp` have as many bytes once they are padded.
const TRANSPORT: usize = 16;

/// `struct xt_mark_mtinfo1` and `struct xt_mark_tginfo2`.
const MARK_MATCH: usize = 16;
const MARK_TARGET: usize = 8;

/// `struct xt_owner_match_info` of `linux/netfilter/xt_owner.h`: the users, the groups, what of them counts, and
/// what of that is inverted.
const OWNER: usize = 24;
const OWNER_COUNTS: usize = 16;
/// `XT_OWNER_UID`.
const USER_COUNTS: u8 = 1;

/// `struct nf_nat_ipv4_multi_range_compat` and, for IPv6, `struct nf_nat_range`: of `MASQUERADE` and `REDIRECT`.
const RANGE_V4: usize = 24;
const RANGE_V6: usize = 40;

/// `struct nf_nat_range2`, with `NF_NAT_RANGE_MAP_IPS` and `NF_NAT_RANGE_PROTO_SPECIFIED`.
const DNAT: usize = 48;
const ADDRESS: u32 = 1;
const PORT: u32 = 2;

impl Extension {
    fn new(name: &str, revision: u32, info: Vec<u8>) -> Self {
        Self { name: name.to_owned(), revision, info }
    }

    /// The extension of a match; `None` for one without an extension, or that is left to the programs of iptables.
    pub fn of_match(part: &Match) -> Option<Self> {
        match part {
            Match::LocalDestination => {
                Some(Self::new("addrtype", 1, laid_out(ADDRESS_TYPE, &[(2, &LOCAL.to_ne_bytes())])))
            }
            Match::RelatedEstablished => {
                let fields: [(usize, &[u8]); 2] = [
                    (CONNTRACK_FLAGS, &STATE_COUNTS.to_ne_bytes()),
                    (CONNTRACK_STATES, &ESTABLISHED_RELATED.to_ne_bytes()),
                ];
                Some(Self::new("conntrack", 3, laid_out(CONNTRACK, &fields)))
            }
            Match::Comment(comment) => {
                Some(Self::new("comment", 0, laid_out(COMMENT, &[(0, comment.as_str().as_bytes())])))
            }
            Match::Mark(mark) => Some(Self::new("mark", 1, mark_bytes(*mark, MARK_MATCH))),
            Match::Port(proto @ (Proto::Tcp | Proto::Udp), port) => {
                Some(Self::new(proto.as_str(), 0, port_bytes((*port, *port))))
            }
            Match::PortRange(proto @ (Proto::Tcp | Proto::Udp), ports) => {
                Some(Self::new(proto.as_str(), 0, port_bytes(ports.bounds())))
            }
            Match::User(users) => Some(Self::new("owner", 1, user_bytes(*users))),
            Match::Ports(_, set) => Some(Self::new("multiport", 1, port_set_bytes(set))),
            Match::Port(Proto::Sctp | Proto::Dccp, _)
            | Match::PortRange(Proto::Sctp | Proto::Dccp, _)
            | Match::Protocol(_)
            | Match::Address(..)
            | Match::Interface(..)
            | Match::Raw(_) => None,
        }
    }

    /// The match that an extension is, in a rule for a transport protocol; `None` for any that has no type.
    pub fn to_match(&self, proto: Option<Proto>) -> Option<Match> {
        let found = match (self.name.as_str(), self.revision) {
            ("addrtype", 1) => Match::LocalDestination,
            ("conntrack", 3) => Match::RelatedEstablished,
            ("comment", 0) => comment(&self.info)?,
            ("mark", 1) => Match::Mark(mark(&self.info)?),
            (name, 0) if proto.is_some_and(|proto| proto.as_str() == name) => port_or_range(proto?, &self.info)?,
            ("owner", 1) => Match::User(users(&self.info)?),
            ("multiport", 1) => Match::Ports(proto?, port_set(&self.info)?),
            _ => return None,
        };
        // What the type does not contain, such as an inversion, shows in the bytes.
        (Self::of_match(&found)?.info == self.info).then_some(found)
    }

    /// The extension that a target is; `None` for a verdict of nf_tables, and for words.
    pub fn of_target(family: Family, target: &Target) -> Option<Self> {
        match target {
            Target::Masquerade => Some(match family {
                Family::V4 => Self::new("MASQUERADE", 0, laid_out(RANGE_V4, &[(0, &1_u32.to_ne_bytes())])),
                Family::V6 => Self::new("MASQUERADE", 0, laid_out(RANGE_V6, &[])),
            }),
            Target::Dnat(to) if Family::of(to.ip()) == family => {
                Some(Self::new("DNAT", 2, dnat_bytes(to.ip(), Some(to.port()))))
            }
            Target::DnatAddress(to) if Family::of(*to) == family => Some(Self::new("DNAT", 2, dnat_bytes(*to, None))),
            Target::Redirect(port) => Some(Self::new("REDIRECT", 0, redirect_bytes(family, *port))),
            Target::SetMark(mark) => Some(Self::new("MARK", 2, mark_bytes(*mark, MARK_TARGET))),
            Target::Dnat(_)
            | Target::DnatAddress(_)
            | Target::Accept
            | Target::Drop
            | Target::Return
            | Target::Jump(_)
            | Target::Raw(_) => None,
        }
    }

    /// The target that an extension is; `None` for any that has no type.
    pub fn to_target(&self, family: Family) -> Option<Target> {
        let found = match (self.name.as_str(), self.revision) {
            ("MASQUERADE", 0) => Target::Masquerade,
            ("MARK", 2) => Target::SetMark(mark(&self.info)?),
            ("DNAT", 2) => dnat(family, &self.info)?,
            ("REDIRECT", 0) => Target::Redirect(redirect(family, &self.info)?),
            _ => return None,
        };
        (Self::of_target(family, &found)?.info == self.info).then_some(found)
    }
}

/// Zeros, with some fields at their places.
fn laid_out(length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (at, value) in fields {
        // A comment is cut to leave its end mark.
        bytes.iter_mut().skip(*at).zip(*value).for_each(|(byte, value)| *byte = *value);
    }
    bytes
}

fn comment(info: &[u8]) -> Option<Match> {
    let text = info.split(|byte| *byte == 0).next()?;
    Some(Match::Comment(Comment::new(std::str::from_utf8(text).ok()?)))
}

fn mark_bytes(Mark { value, mask }: Mark, length: usize) -> Vec<u8> {
    laid_out(length, &[(0, &value.to_ne_bytes()), (4, &mask.to_ne_bytes())])
}

fn mark(info: &[u8]) -> Option<Mark> {
    let word = |at| field(info, at).map(u32::from_ne_bytes);
    Some(Mark { value: word(0)?, mask: word(4)? })
}

/// From any port to some ports, for both protocols: the ports come first, the destination's after the source's.
fn port_bytes((first, last): (u16, u16)) -> Vec<u8> {
    laid_out(TRANSPORT, &[(2, &u16::MAX.to_ne_bytes()), (4, &first.to_ne_bytes()), (6, &last.to_ne_bytes())])
}

fn port_or_range(proto: Proto, info: &[u8]) -> Option<Match> {
    let port = |at| field(info, at).map(u16::from_ne_bytes);
    let (first, last) = (port(4)?, port(6)?);
    if first == last {
        return Some(Match::Port(proto, first));
    }
    PortRange::new(first, last).map(|ports| Match::PortRange(proto, ports))
}

fn user_bytes(users: UidRange) -> Vec<u8> {
    let (first, last) = users.bounds();
    laid_out(OWNER, &[(0, &first.to_ne_bytes()), (4, &last.to_ne_bytes()), (OWNER_COUNTS, &[USER_COUNTS])])
}

fn users(info: &[u8]) -> Option<UidRange> {
    let number = |at| field(info, at).map(u32::from_ne_bytes);
    UidRange::new(number(0)?, number(4)?)
}

fn port_set_bytes(set: &PortSet) -> Vec<u8> {
    let ports: Vec<u8> = set.ports().iter().flat_map(|port| port.to_ne_bytes()).collect();
    let count = u8::try_from(set.ports().len()).unwrap_or(u8::MAX);
    laid_out(MULTIPORT, &[(0, &[DESTINATION_PORTS, count]), (2, &ports)])
}

fn port_set(info: &[u8]) -> Option<PortSet> {
    let count = usize::from(*info.get(1)?);
    PortSet::new((0..count).map(|at| field(info, 2 + 2 * at).map(u16::from_ne_bytes)).collect::<Option<_>>()?)
}

/// One address, and one port if it changes, as the ends of two ranges.
fn dnat_bytes(address: IpAddr, port: Option<u16>) -> Vec<u8> {
    let counts = if port.is_some() { ADDRESS | PORT } else { ADDRESS };
    let (address, port) = (octets(address), port.unwrap_or_default().to_be_bytes());
    let fields: [(usize, &[u8]); 5] =
        [(0, &counts.to_ne_bytes()), (4, &address), (20, &address), (36, &port), (38, &port)];
    laid_out(DNAT, &fields)
}

fn dnat(family: Family, info: &[u8]) -> Option<Target> {
    let address = match family {
        Family::V4 => IpAddr::from(Ipv4Addr::from(field::<4>(info, 4)?)),
        Family::V6 => IpAddr::from(Ipv6Addr::from(field::<16>(info, 4)?)),
    };
    if u32::from_ne_bytes(field(info, 0)?) == ADDRESS {
        return Some(Target::DnatAddress(address));
    }
    Some(Target::Dnat(SocketAddr::new(address, u16::from_be_bytes(field(info, 36)?))))
}

/// No address, and one port as both ends of a range. Before it come, for IPv4, the number of ranges.
fn redirect_bytes(family: Family, port: u16) -> Vec<u8> {
    let (one, counts, port) = (1_u32.to_ne_bytes(), PORT.to_ne_bytes(), port.to_be_bytes());
    match family {
        Family::V4 => laid_out(RANGE_V4, &[(0, &one), (4, &counts), (16, &port), (18, &port)]),
        Family::V6 => laid_out(RANGE_V6, &[(0, &counts), (36, &port), (38, &port)]),
    }
}

fn redirect(family: Family, info: &[u8]) -> Option<u16> {
    let at = match family {
        Family::V4 => 16,
        Family::V6 => 36,
    };
    field(info, at).map(u16::from_be_bytes)
}

/// The protocol of a number; `None` for one without ports.
pub fn protocol(number: u8) -> Option<Proto> {
    Proto::ALL.into_iter().find(|proto| transport_number(*proto) == number)
}
