//! The special networks of each family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Family;
use crate::cidr::Cidr;

impl Family {
    /// The default destination, `0.0.0.0/0` or `::/0`.
    pub const fn default_route(self) -> Cidr {
        Cidr::truncated(self.unspecified(), 0)
    }

    /// All multicast addresses, `224.0.0.0/4` or `ff00::/8`.
    pub const fn multicast(self) -> Cidr {
        match self {
            Self::V4 => Cidr::truncated(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 4),
            Self::V6 => Cidr::truncated(IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
        }
    }

    /// All loopback addresses, `127.0.0.0/8` or `::1/128`.
    pub const fn loopback_network(self) -> Cidr {
        match self {
            Self::V4 => Cidr::truncated(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
            Self::V6 => Cidr::truncated(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
        }
    }
}
