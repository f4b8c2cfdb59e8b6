//! Kinds of links that have settings of their own: macvlan, ipvlan and vlan, each on another link, its master; and tap devices, by
//! which a program sends and receives Ethernet frames (`drivers/net/tun.c` of the kernel, in its mode tap).

use std::fmt;

use cni_core::names::{IfName, hash_hex};

use super::terms::Ns;

/// The link by which a child sends and receives. The kernel takes its index, since a name may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterLink {
    /// The namespace of the master; the link on it may be in another one.
    pub ns: Ns,
    /// The index of the master in its namespace.
    pub index: u32,
    /// Its name, for messages.
    pub name: String,
}

/// The kind of a link on a master, with the settings for its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// A link with a MAC address of its own.
    Macvlan {
        /// How the links of the master reach each other.
        mode: MacvlanMode,
        /// How many broadcast and multicast packets may wait (`IFLA_MACVLAN_BC_QUEUE_LEN`); the kernel's default is
        /// 1000.
        broadcast_queue: Option<u32>,
    },
    /// A link for the frames of one VLAN (802.1Q).
    Vlan {
        /// Its number, 0 to 4094; 0 is for frames that have a priority and no VLAN.
        id: u16,
    },
    /// A link with the MAC address of its master; the kernel assigns packets by IP address.
    Ipvlan {
        /// The mode of the master's links, which all have the same: each that is made sets it for all.
        mode: IpvlanMode,
    },
}

impl ChildKind {
    /// `IFLA_INFO_KIND`: the kernel's word for the kind, and the name of its module.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Macvlan { .. } => "macvlan",
            Self::Vlan { .. } => "vlan",
            Self::Ipvlan { .. } => "ipvlan",
        }
    }
}

impl fmt::Display for ChildKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Macvlan { mode, broadcast_queue } => {
                write!(f, "macvlan mode {mode}")?;
                broadcast_queue.map_or(Ok(()), |packets| write!(f, " bcqueuelen {packets}"))
            }
            Self::Vlan { id } => write!(f, "vlan id {id}"),
            Self::Ipvlan { mode } => write!(f, "ipvlan mode {mode}"),
        }
    }
}

/// `IFLA_MACVLAN_MODE`: how the children of a master reach each other. None of them reaches the master's own host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacvlanMode {
    /// Not at all.
    Private,
    /// By a switch outside that sends frames back (VEPA).
    Vepa,
    /// At once.
    Bridge,
    /// Only one link, which has the master's MAC address.
    Passthru,
    /// As [`MacvlanMode::Bridge`], for senders on a list. No plugin makes such a link; an administrator may.
    Source,
}

impl MacvlanMode {
    /// All modes.
    pub const ALL: [Self; 5] = [Self::Private, Self::Vepa, Self::Bridge, Self::Passthru, Self::Source];

    /// The word of `ip link` and of configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Vepa => "vepa",
            Self::Bridge => "bridge",
            Self::Passthru => "passthru",
            Self::Source => "source",
        }
    }

    /// `MACVLAN_MODE_*` of `linux/if_link.h`.
    pub const fn number(self) -> u32 {
        match self {
            Self::Private => 1,
            Self::Vepa => 2,
            Self::Bridge => 4,
            Self::Passthru => 8,
            Self::Source => 16,
        }
    }
}

impl fmt::Display for MacvlanMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// `IFLA_IPVLAN_MODE`: where packets of a container are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpvlanMode {
    /// In the container, which takes part in the network of the master.
    L2,
    /// The host routes, without its packet filter; broadcasts and multicasts are dropped.
    L3,
    /// On the host, by its packet filter.
    L3s,
}

impl IpvlanMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::L2, Self::L3, Self::L3s];

    /// The word of `ip link` and of configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::L3 => "l3",
            Self::L3s => "l3s",
        }
    }

    /// `IPVLAN_MODE_*` of `linux/if_link.h`.
    pub const fn number(self) -> u16 {
        match self {
            Self::L2 => 0,
            Self::L3 => 1,
            Self::L3s => 2,
        }
    }
}

impl fmt::Display for IpvlanMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The temporary name of a link if the kernel does not accept the final one at creation (before Linux 6.6, while the
/// host has a link of that name). It is derived from the final name, so DEL finds a link that a killed ADD has left.
pub fn temporary_name(name: &IfName) -> IfName {
    IfName::host_veth(u32::from_str_radix(&hash_hex(name.as_str())[..8], 16).unwrap_or_default())
}

/// The users of a tap device, and its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapOptions {
    /// The only user, besides root, who may open it (`TUNSETOWNER`).
    pub owner: Option<u32>,
    /// The only group (`TUNSETGROUP`).
    pub group: Option<u32>,
    /// The number of queues.
    pub queues: TapQueues,
}

/// The number of queues of a tap device. A program that opens the device must ask for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TapQueues {
    /// One.
    #[default]
    One,
    /// Many (`IFF_MULTI_QUEUE`), each with a file descriptor of its own.
    Many,
}

/// The headers that precede each frame, until a program that opens the device asks for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TapHeaders {
    /// None (`IFF_NO_PI`).
    #[default]
    None,
    /// Flags and protocol of the frame, four bytes. The driver ignores `IFF_ONE_QUEUE`, which is set as well, since Linux 3.8.
    PacketInformation,
    /// The same, and the header of virtio with checksums and segments (`IFF_VNET_HDR`).
    Virtio,
}

impl fmt::Display for TapHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::PacketInformation => " pi one_queue",
            Self::Virtio => " pi one_queue vnet_hdr",
        })
    }
}

impl fmt::Display for TapOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, group, queues } = self;
        f.write_str("tun mode tap")?;
        match queues {
            TapQueues::One => {}
            TapQueues::Many => f.write_str(" multi_queue")?,
        }
        owner.map_or(Ok(()), |owner| write!(f, " user {owner}"))?;
        group.map_or(Ok(()), |group| write!(f, " group {group}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_is_of_one_name_alone() {
        let [eth0, net1] = ["eth0", "net1"].map(|name| temporary_name(&IfName::parse(name).expect("a name")));
        assert_eq!(eth0, temporary_name(&IfName::parse("eth0").expect("a name")));
        assert_ne!(eth0, net1);
        assert!(eth0.as_str().starts_with("veth") && eth0.as_str().len() == 12, "{eth0}");
    }
}
