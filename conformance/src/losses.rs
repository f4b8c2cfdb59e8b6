//! What may be lost between ADD and DEL, of the container and of the runtime's state; DEL must succeed without it.
//! This is the only table, for the tests of each plugin, for those of whole lists, and for the cases of the program.

use std::fmt;

use crate::{Attachment, Container};

/// If this is set, the command `losses` of cases goes on behind a loss that does not hold, and fails at its end with a table of all, to
/// compare folders of plugins. Lists then have a version of the protocol that older plugins know, and nothing is asked of CHECK.
pub const TABLE: &str = "CNI_LOSSES_TABLE";

/// Something that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// DEL comes as ADD did.
    Nothing,
    /// The runtime has no result of ADD.
    Result,
    /// The arguments are no pairs.
    Arguments,
    /// The arguments are those of other plugins, with unreadable ones.
    ForeignArguments,
    /// The runtime has forgotten the path of a namespace that lives.
    NetnsPath,
    /// The namespace and its path are missing.
    Netns,
    /// The folder of the path and the namespace are missing.
    NetnsFolder,
    /// The namespace has ended, and its path is a plain file.
    NetnsMount,
    /// The namespace has ended, and the runtime has forgotten its path.
    NetnsAndPath,
    /// The namespace has ended, and the runtime has no result.
    NetnsAndResult,
    /// The interface is missing in the container.
    Interface,
    /// The interface has no addresses.
    Addresses,
    /// The runtime has forgotten the ports.
    Ports,
    /// The runtime has neither ports nor a result.
    PortsAndResult,
    /// The namespace has ended, and the runtime has neither ports nor a result.
    AllButNames,
    /// The runtime has neither ports nor a result nor the path of a namespace that lives.
    AllButNamesAndNetns,
    /// The path leads to another container, since its name was given again.
    OthersNetns,
    /// The network has another name.
    Name,
    /// The network has another name, and the runtime has no result.
    NameAndResult,
    /// The network has another name, and the namespace has ended, which is left to the caller.
    NameAndNetns,
}

impl Loss {
    /// All that a plugin may meet which gets no ports.
    pub const ALL: [Self; 12] = [
        Self::Nothing,
        Self::Result,
        Self::Arguments,
        Self::ForeignArguments,
        Self::NetnsPath,
        Self::Netns,
        Self::NetnsFolder,
        Self::NetnsMount,
        Self::NetnsAndPath,
        Self::NetnsAndResult,
        Self::Interface,
        Self::Addresses,
    ];

    /// Further losses for a list whose containers have ports.
    pub const OF_PORTS: [Self; 4] = [Self::Ports, Self::PortsAndResult, Self::AllButNames, Self::AllButNamesAndNetns];

    /// Further losses, of what the runtime knows of the list.
    pub const OF_LISTS: [Self; 3] = [Self::Name, Self::NameAndResult, Self::NameAndNetns];

    /// Tells whether the container's namespace ends by it.
    pub fn ends_the_namespace(self) -> bool {
        use Loss::{AllButNames, Netns, NetnsAndPath, NetnsAndResult, NetnsFolder, NetnsMount};
        [Netns, NetnsFolder, NetnsMount, NetnsAndPath, NetnsAndResult, AllButNames].contains(&self)
    }

    /// Loses it, and returns the request of the following DEL.
    ///
    /// # Panics If there is nothing to lose.
    #[must_use]
    #[track_caller]
    pub fn strike(self, container: &Container, request: Attachment) -> Attachment {
        let inside = |line: &str| drop(container.sh(&format!("{line} dev {}", request.ifname)));
        if self == Self::NetnsMount {
            container.unmount();
        } else if self.ends_the_namespace() {
            container.remove();
        } else if self == Self::Interface {
            inside("ip link del");
        } else if self == Self::Addresses {
            inside("ip address flush");
        }
        match self {
            Self::Result | Self::NetnsAndResult | Self::NameAndResult => request.without_result(),
            Self::Arguments => request.args("garbage"),
            Self::ForeignArguments => request.args("FOO=bar;MAC=zz;IP=zz;;="),
            Self::NetnsPath | Self::NetnsAndPath => request.netns(""),
            Self::NetnsFolder => request.netns("/run/gone/c1"),
            Self::Ports => request.without_capabilities(),
            Self::PortsAndResult | Self::AllButNames => request.without_result().without_capabilities(),
            Self::AllButNamesAndNetns => request.without_result().without_capabilities().netns(""),
            Self::Nothing
            | Self::Netns
            | Self::NetnsMount
            | Self::Interface
            | Self::Addresses
            | Self::OthersNetns
            | Self::Name
            | Self::NameAndNetns => request,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lost: {self:?}")
    }
}
