//! Links, addresses and routes as the kernel reports them: facts for plans, never commands.

use std::fmt;
use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::mac::Mac;
use serde::{Deserialize, Serialize};

use crate::plan::kind::{ChildKind, TapOptions};

/// The operational state of a link, RFC 2863 as in `linux/if.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperState {
    /// The driver does not say.
    #[default]
    Unknown,
    /// Components are missing.
    NotPresent,
    /// Down.
    Down,
    /// The link below is down.
    LowerLayerDown,
    /// In a test mode.
    Testing,
    /// Waiting for an external event.
    Dormant,
    /// Ready to pass packets.
    Up,
}

impl fmt::Display for OperState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::NotPresent => "not-present",
            Self::Down => "down",
            Self::LowerLayerDown => "lower-layer-down",
            Self::Testing => "testing",
            Self::Dormant => "dormant",
            Self::Up => "up",
        })
    }
}

/// A link as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// `IFLA_INFO_KIND`, such as `bridge` or `veth`; none for hardware and `lo`.
    pub kind: Option<String>,
    /// Link-layer address, if any that is not all zero.
    pub mac: Option<Mac>,
    /// The address that the hardware was made with (`IFLA_PERM_ADDRESS`); none for most links without hardware.
    pub permanent_mac: Option<Mac>,
    /// The device of a network card, as `bus/name`, such as `pci/0000:3d:00.1`; none for links of software, and before
    /// Linux 5.14.
    pub parent_device: Option<String>,
    /// MTU in bytes.
    pub mtu: u32,
    /// `IFF_UP`.
    pub up: bool,
    /// Operational state.
    pub oper_state: OperState,
    /// Index of the bridge, bond or VRF that the link is a port of.
    pub master: Option<u32>,
    /// `IFLA_LINK`: for a veth the index of its peer, in the peer's namespace; for a child that of its master.
    pub peer: Option<u32>,
    /// `IFLA_LINK_NETNSID`: the peer's namespace, by the number that the link's own has for it; none when both are in
    /// the same.
    pub peer_netns: Option<i32>,
    /// `IFF_PROMISC`: the administrator has asked for promiscuous mode.
    pub promisc: bool,
    /// The number of users that have requested promiscuous mode.
    pub promiscuity: u32,
    /// `IFF_ALLMULTI`: the administrator has asked for every multicast frame.
    pub all_multicast: bool,
    /// The length of the transmit queue, in packets.
    pub tx_queue_length: u32,
    /// `IFLA_IFALIAS`.
    pub alias: Option<String>,
    /// For a bridge: whether VLAN filtering is on.
    pub vlan_filtering: Option<bool>,
    /// For a VRF: its routing table.
    pub vrf_table: Option<u32>,
    /// For a child of a master: what it is.
    pub child: Option<ChildKind>,
    /// For a tap device: who may open it. None for a device of mode tun, which has no Ethernet frames.
    pub tap: Option<TapOptions>,
}

/// The other end of a link: the peer of a veth, the master of a link, or the namespace in which a tunnel was made. The
/// kernel reports it; a container cannot choose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherEnd {
    /// The index that the peer or master has in its namespace.
    pub index: Option<u32>,
    /// The number that the host's namespace has for that one; none when it is the host's own.
    pub netns: Option<i32>,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Address and prefix length.
    pub cidr: Cidr,
    /// `IFA_F_TENTATIVE`: duplicate address detection has not ended.
    pub tentative: bool,
    /// `IFA_F_DADFAILED`: another host has the address.
    pub dad_failed: bool,
}

/// A route as the kernel holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Destination; the default route is `0.0.0.0/0` or `::/0`.
    pub dst: Cidr,
    /// Next hops; more than one for a multipath route.
    pub gateways: Vec<IpAddr>,
    /// Indices of the output links; more than one for a multipath route.
    pub links: Vec<u32>,
    /// Whether the route forwards packets, unlike `blackhole`, `unreachable`, `local` and others.
    pub unicast: bool,
    /// Routing table.
    pub table: u32,
}
