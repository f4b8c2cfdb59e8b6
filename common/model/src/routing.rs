//! Routes with all attributes that the kernel stores, so that they can be moved between tables, and policy routing
//! rules.

use std::fmt;
use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use serde::{Deserialize, Serialize};

/// `RT_TABLE_MAIN` of `linux/rtnetlink.h`.
pub const MAIN_TABLE: u32 = 254;

/// `RTPROT_KERNEL` of `linux/rtnetlink.h`: the kernel adds such routes itself when an address is added.
pub const BY_KERNEL: u8 = 2;

/// `RTPROT_BOOT` of `linux/rtnetlink.h`: a program has made the route.
pub const BY_PROGRAM: u8 = 3;

/// `RT_SCOPE_LINK` of `linux/rtnetlink.h`: the destination is on the link.
pub const LINK_SCOPE: u8 = 253;

/// `RTA_METRICS` of `linux/rtnetlink.h`: what the kernel knows of the way, each value as an attribute.
const METRICS: u16 = 8;

/// `RTAX_MTU` of `linux/rtnetlink.h`.
pub const MTU_METRIC: u16 = 2;

/// `RTAX_ADVMSS` of `linux/rtnetlink.h`.
pub const ADVMSS_METRIC: u16 = 8;

/// The metric that the kernel uses if an IPv6 route has metric 0: `IP6_RT_PRIO_USER` of `linux/ipv6_route.h`.
pub const IPV6_METRIC: u32 = 1024;

/// A unicast route by one link, or one next hop of a route that has several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FullRoute {
    /// Destination.
    pub dst: Cidr,
    /// Next hop; none for a destination on the link.
    pub gateway: Option<IpAddr>,
    /// The address that packets have as their source, unless their sender has chosen one.
    pub source: Option<IpAddr>,
    /// Index of the link.
    pub link: u32,
    /// Routing table.
    pub table: u32,
    /// The metric; the lowest is preferred. 0 is the kernel's default.
    pub metric: u32,
    /// Scope as in `linux/rtnetlink.h`: 0 for global, 253 for the link.
    pub scope: u8,
    /// The origin of the route, as in `linux/rtnetlink.h`: 2 for the kernel, 3 for programs.
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// Whether the next hop is on the link even if no address of the link contains it.
    pub onlink: bool,
    /// Whether the route has other next hops as well.
    pub is_one_of_several: bool,
    /// All other attributes, as the kernel reports them: type and value.
    pub attributes: Vec<(u16, Vec<u8>)>,
}

impl FullRoute {
    /// A default route by a next hop, as programs make it.
    pub fn default_by(gateway: IpAddr, link: u32, table: u32) -> Self {
        let family = Family::of(gateway);
        Self {
            dst: family.default_route(),
            gateway: Some(gateway),
            source: None,
            link,
            table,
            metric: match family {
                Family::V4 => 0,
                Family::V6 => IPV6_METRIC,
            },
            scope: 0,
            protocol: BY_PROGRAM,
            tos: 0,
            onlink: false,
            is_one_of_several: false,
            attributes: Vec::new(),
        }
    }

    /// One of the values of `RTA_METRICS`; `None` if the route has its link's.
    pub fn metric_value(&self, kind: u16) -> Option<u32> {
        let (_, metrics) = self.attributes.iter().find(|(kind, _)| *kind == METRICS)?;
        let mut rest = metrics.as_slice();
        while let Some((&[low, high, first, second], value)) = rest.split_first_chunk() {
            if u16::from_ne_bytes([first, second]) == kind {
                return value.first_chunk().copied().map(u32::from_ne_bytes);
            }
            let length = usize::from(u16::from_ne_bytes([low, high])).next_multiple_of(4);
            rest = rest.get(length.max(4)..)?;
        }
        None
    }

    /// The same route in another table, with this next hop only.
    #[must_use]
    pub fn in_table(&self, table: u32) -> Self {
        Self { table, is_one_of_several: false, ..self.clone() }
    }
}

impl fmt::Display for FullRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dst)?;
        self.gateway.map_or(Ok(()), |gateway| write!(f, " via {gateway}"))?;
        write!(f, " dev {}", self.link)?;
        self.source.map_or(Ok(()), |source| write!(f, " src {source}"))?;
        write!(f, " table {}", self.table)?;
        if self.metric == 0 { Ok(()) } else { write!(f, " metric {}", self.metric) }
    }
}

/// A rule that sends the packets of a source to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRule {
    /// The source.
    pub source: Cidr,
    /// The table.
    pub table: u32,
    /// Its priority. The kernel reads the rule with the lowest first, and puts a new rule without a priority before the others.
    pub priority: Option<u32>,
}

impl fmt::Display for SourceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} lookup {}", self.source, self.table)?;
        self.priority.map_or(Ok(()), |priority| write!(f, " priority {priority}"))
    }
}

/// A rule as the kernel holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRule {
    /// The table that it leads to; 0 where it does something else.
    pub table: u32,
    /// The rule as a source rule, if it matches the source address of a packet and nothing else.
    pub by_source: Option<SourceRule>,
}
