//! A machine outside of the sandbox's host.
//!
//! It is connected to the host's uplink, has one address per family and no route to any container network. So packets
//! that leave the host with a container's source address get no answer.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

use crate::namespace::Namespace;

/// The other end of the host's uplink; it derefs to [`Namespace`].
#[derive(Debug, Clone)]
pub struct Outside(Namespace);

impl Outside {
    /// The host's link towards the outside.
    pub const HOST_LINK: &str = "uplink0";
    /// The outside's only link.
    pub const LINK: &str = "wire0";
    /// The host's address on the uplink.
    pub const HOST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    /// The host's IPv6 address on the uplink.
    pub const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);
    /// The address of the outside.
    pub const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
    /// The IPv6 address of the outside.
    pub const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

    pub(crate) fn create(host: &Namespace, search: &str) -> Self {
        let outside = Namespace::create("outside", search);
        let (near, far) = (Self::HOST_LINK, Self::LINK);
        host.ip(&[&format!("link add {near} type veth peer name {far} netns outside")]);
        let set_up = |link: &str, v4: Ipv4Addr, v6: Ipv6Addr| {
            [
                format!("address add {v4}/24 dev {link}"),
                format!("address add {v6}/64 dev {link} nodad"),
                "link set lo up".to_owned(),
                format!("link set {link} up"),
            ]
        };
        outside.ip(&set_up(far, Self::V4, Self::V6).each_ref().map(String::as_str));
        host.ip(&set_up(near, Self::HOST_V4, Self::HOST_V6).each_ref().map(String::as_str));
        host.ip(&[
            &format!("route add default via {}", Self::V4),
            &format!("route add default via {} dev {near}", Self::V6),
        ]);
        Self(outside)
    }

    /// Gives the outside a route to a container network by way of the host.
    ///
    /// # Panics
    /// When `network` is not a CIDR.
    pub fn route_to(&self, network: &str) {
        if network.contains(':') {
            self.sh(&format!("ip -6 route add {network} via {}", Self::HOST_V6));
        } else {
            self.sh(&format!("ip route add {network} via {}", Self::HOST_V4));
        }
    }
}

impl Deref for Outside {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.0
    }
}
