//! A host port, as packets match it: two containers can have the same one.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_netfilter::Proto;

use crate::config::{ListenAddress, Mapping};

/// A port of the host that leads to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedPort {
    pub port: u16,
    pub proto: Proto,
    /// The address of the host; the unspecified one means every one of its family.
    pub address: IpAddr,
}

impl PublishedPort {
    /// The host port of a mapping in the family of a container's address, if any.
    pub fn of(mapping: &Mapping, target: Cidr) -> Option<Self> {
        let family = target.family();
        let address = match mapping.listen {
            ListenAddress::Address(address) => address,
            ListenAddress::Anywhere | ListenAddress::Family(_) => family.unspecified(),
        };
        let port = Self { port: mapping.host_port, proto: mapping.proto, address };
        mapping.applies_to(family).then_some(port)
    }

    /// Whether a packet can match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let same_address = self.address == other.address;
        let same_family = Family::of(self.address) == Family::of(other.address);
        let addresses =
            same_address || same_family && (self.address.is_unspecified() || other.address.is_unspecified());
        self.port == other.port && self.proto == other.proto && addresses
    }

    pub const fn family(&self) -> Family {
        Family::of(self.address)
    }
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.proto, SocketAddr::new(self.address, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(port: u16, proto: Proto, address: &str) -> PublishedPort {
        PublishedPort { port, proto, address: address.parse().expect("an address") }
    }

    #[test]
    fn a_wildcard_overlaps_each_address_of_its_family() {
        for (one, other, want) in [
            ("0.0.0.0", "0.0.0.0", true),
            ("0.0.0.0", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0", "::", false),
            ("0.0.0.0", "fd00::1", false),
            ("::", "fd00::1", true),
            ("::", "192.0.2.1", false),
        ] {
            let [one, other] = [one, other].map(|address| published(80, Proto::Tcp, address));
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (want, want), "{one} {other}");
        }
        let one = published(80, Proto::Tcp, "0.0.0.0");
        for other in [published(81, Proto::Tcp, "0.0.0.0"), published(80, Proto::Udp, "0.0.0.0")] {
            assert!(!one.overlaps(&other), "{other}");
        }
    }
}
