//! An address with a prefix length, parsed as strictly as the reference plugins do.
//!
//! The prefix is required and holds decimal digits only (leading zeros are accepted); octets with
//! leading zeros, netmasks and zones are refused; an IPv4-mapped IPv6 address becomes IPv4. Host bits
//! are kept: `10.1.2.3/24` is an interface address and its network at once.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnetwork::IpNetwork;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::family::Family;

/// Text that is not an address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CIDR address: {text}")]
pub struct CidrError {
    text: String,
}

/// An IP address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Joins an address and a prefix length; `None` when the prefix is longer than the address.
    pub const fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        if prefix > Family::of(address).bits() {
            return None;
        }
        Some(Self { address, prefix })
    }

    /// Joins an address and a prefix length, cutting the prefix to the length of the address.
    pub const fn truncated(address: IpAddr, prefix: u8) -> Self {
        let bits = Family::of(address).bits();
        Self { address, prefix: if prefix > bits { bits } else { prefix } }
    }

    /// The network that holds just this address: `/32` or `/128`.
    pub const fn host(address: IpAddr) -> Self {
        Self { address, prefix: Family::of(address).bits() }
    }

    /// The address, host bits included.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// The prefix length in bits.
    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    /// The family of the address.
    pub const fn family(self) -> Family {
        Family::of(self.address)
    }

    /// The network: the address with its host bits cleared.
    pub fn network(self) -> Self {
        Self { address: self.as_ipnetwork().network(), prefix: self.prefix }
    }

    /// The last address of the network; for IPv4 that is the broadcast address.
    pub fn last(self) -> IpAddr {
        self.as_ipnetwork().broadcast()
    }

    /// Whether an address is in the network. An address of the other family is not.
    pub fn contains(self, address: IpAddr) -> bool {
        self.family() == Family::of(address) && self.as_ipnetwork().contains(address)
    }

    /// Whether two networks share an address.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.network().address) || other.contains(self.network().address)
    }

    /// Whether the address is the network's own, without host bits.
    pub fn is_network(self) -> bool {
        self.network() == self
    }

    fn as_ipnetwork(self) -> IpNetwork {
        IpNetwork::new(self.address, self.prefix).unwrap_or_else(|_| IpNetwork::from(self.address))
    }
}

/// The special networks of each family.
impl Family {
    /// The default destination, `0.0.0.0/0` or `::/0`.
    pub const fn default_route(self) -> Cidr {
        Cidr::truncated(self.unspecified(), 0)
    }

    /// All multicast addresses, `224.0.0.0/4` or `ff00::/8`.
    pub const fn multicast(self) -> Cidr {
        self.choose(
            Cidr::truncated(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 4),
            Cidr::truncated(IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
        )
    }

    /// All loopback addresses, `127.0.0.0/8` or `::1/128`.
    pub const fn loopback_network(self) -> Cidr {
        let v4 = Cidr::truncated(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8);
        self.choose(v4, Cidr::host(IpAddr::V6(Ipv6Addr::LOCALHOST)))
    }
}

/// Parses an address as the reference plugins do: strict octets, no zone, IPv4-mapped becomes IPv4.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Whether an address is not link-local. Link-local addresses are the kernel's, not the IPAM plugin's.
pub fn is_global(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    }
}

/// The address that comes `offset` places after `address`; `None` past the end of the address space.
pub fn ip_offset(address: IpAddr, offset: u128) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(v4) => {
            let offset = u32::try_from(offset).ok()?;
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits().checked_add(offset)?))
        }
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits().checked_add(offset)?)),
    })
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let refused = || CidrError { text: text.to_owned() };
        let (address, prefix) = text.split_once('/').ok_or_else(refused)?;
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let digits = prefix.trim_start_matches('0');
        let prefix = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| refused())? };
        let given = Self::new(address, prefix).ok_or_else(refused)?;
        match address.to_canonical() {
            canonical @ IpAddr::V4(_) if address.is_ipv6() && prefix >= 96 => {
                Ok(Self { address: canonical, prefix: prefix - 96 })
            }
            IpAddr::V4(_) | IpAddr::V6(_) => Ok(given),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_the_reference_parses() {
        for (text, want) in [
            ("10.0.0.5/24", "10.0.0.5/24"),
            ("10.0.0.1/024", "10.0.0.1/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("3fff:cab0:0d13::/120", "3fff:cab0:d13::/120"),
            ("::ffff:10.1.1.1/120", "10.1.1.1/24"),
        ] {
            assert_eq!(text.parse::<Cidr>().map(|cidr| cidr.to_string()), Ok(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn refuses_what_the_reference_refuses() {
        let texts = "10.0.0.5,10.0.0.5/255.255.255.0,10.0.0.1/+24,010.0.0.1/24,10.0.0.1/33,::1/129,fe80::1%eth0/64, 10.0.0.1/24,10.0.0.1/,/24,";
        for text in texts.split(',') {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError { text: text.to_owned() }));
        }
    }

    #[test]
    fn a_network_knows_its_bounds() {
        let cidr: Cidr = "10.1.2.77/26".parse().expect("valid");
        assert_eq!(cidr.network().to_string(), "10.1.2.64/26");
        assert_eq!(cidr.last().to_string(), "10.1.2.127");
        assert!(cidr.contains(IpAddr::from([10, 1, 2, 100])));
        assert!(!cidr.contains(IpAddr::from([10, 1, 2, 128])));
        assert!(!cidr.contains(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(ip_offset(IpAddr::from([255, 255, 255, 254]), 1), Some(IpAddr::from([255, 255, 255, 255])));
        assert_eq!(ip_offset(IpAddr::from([255, 255, 255, 255]), 1), None);
    }
}
