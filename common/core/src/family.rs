//! The address family, and every constant that depends on it.
//!
//! Decisions match on the family here and nowhere else: a plan holds `IpAddr`s and `Cidr`s, and asks
//! this module for what follows from them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families, IPv4 first: the order in which results and rules are made.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Length of an address in bits.
    pub const fn bits(self) -> u8 {
        self.choose(32, 128)
    }

    /// `0.0.0.0` or `::`.
    pub const fn unspecified(self) -> IpAddr {
        self.choose(IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    }

    /// The loopback address, `127.0.0.1` or `::1`.
    pub const fn loopback(self) -> IpAddr {
        self.choose(IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST))
    }

    /// The sysctl that lets the host forward packets of this family.
    pub const fn forwarding_key(self) -> &'static [&'static str] {
        self.choose(&["net", "ipv4", "ip_forward"], &["net", "ipv6", "conf", "all", "forwarding"])
    }

    /// The name of the iptables program of this family, to which `-restore` may be appended.
    pub const fn iptables(self) -> &'static str {
        self.choose("iptables", "ip6tables")
    }

    /// The word that the reference plugins use in messages, `ipv4` or `ipv6`.
    pub const fn word(self) -> &'static str {
        self.choose("ipv4", "ipv6")
    }

    /// The value of `ips[].version` in results up to 0.4.0.
    pub const fn digit(self) -> &'static str {
        self.choose("4", "6")
    }

    pub(crate) const fn choose<T: Copy>(self, v4: T, v6: T) -> T {
        match self {
            Self::V4 => v4,
            Self::V6 => v6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.choose("v4", "v6"))
    }
}
