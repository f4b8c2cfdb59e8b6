//! What may be lost between ADD and DEL: of the container, and of what the runtime remembers. One table for all plugins.

use std::fmt;

use crate::{Attachment, Container};

/// One thing that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// DEL comes as ADD did.
    Nothing,
    /// The runtime has no result of ADD.
    Result,
    /// The arguments are no pairs.
    Arguments,
    /// The runtime has forgotten the path of a namespace that lives.
    NetnsPath,
    /// The namespace and its path are gone.
    Netns,
    /// The folder of the path is gone, and the namespace as well.
    NetnsFolder,
    /// The namespace is gone, and its path is a plain file.
    NetnsMount,
    /// The namespace is gone, and the runtime has forgotten its path.
    NetnsAndPath,
    /// The namespace is gone, and the runtime has no result.
    NetnsAndResult,
    /// The interface is gone from the container.
    Interface,
    /// The interface has no addresses any more.
    Addresses,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Nothing,
        Self::Result,
        Self::Arguments,
        Self::NetnsPath,
        Self::Netns,
        Self::NetnsFolder,
        Self::NetnsMount,
        Self::NetnsAndPath,
        Self::NetnsAndResult,
        Self::Interface,
        Self::Addresses,
    ];

    /// Tells whether the container's namespace ends by it.
    pub fn ends_the_namespace(self) -> bool {
        match self {
            Self::Netns | Self::NetnsFolder | Self::NetnsMount | Self::NetnsAndPath | Self::NetnsAndResult => true,
            Self::Nothing | Self::Result | Self::Arguments | Self::NetnsPath | Self::Interface | Self::Addresses => {
                false
            }
        }
    }

    /// Loses it, and returns the request that DEL then comes with.
    ///
    /// # Panics
    /// When there is nothing to lose.
    #[must_use]
    #[track_caller]
    pub fn strike(self, container: &Container, request: Attachment) -> Attachment {
        let inside = |line: &str| drop(container.sh(&format!("{line} dev {}", request.ifname)));
        match self {
            Self::Nothing | Self::Result | Self::Arguments | Self::NetnsPath => {}
            Self::NetnsMount => container.unmount(),
            Self::Netns | Self::NetnsFolder | Self::NetnsAndPath | Self::NetnsAndResult => container.remove(),
            Self::Interface => inside("ip link del"),
            Self::Addresses => inside("ip address flush"),
        }
        match self {
            Self::Result | Self::NetnsAndResult => request.without_result(),
            Self::Arguments => request.args("garbage"),
            Self::NetnsPath | Self::NetnsAndPath => request.netns(""),
            Self::NetnsFolder => request.netns("/run/gone/c1"),
            Self::Nothing | Self::Netns | Self::NetnsMount | Self::Interface | Self::Addresses => request,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lost: {self:?}")
    }
}
