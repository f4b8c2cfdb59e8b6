//! Tap devices, by which a program sends and receives Ethernet frames: `drivers/net/tun.c` of the kernel, in its mode
//! tap.

use std::fmt;

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
