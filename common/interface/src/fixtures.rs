//! Attachments for the tests of this crate.

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};

/// An interface of a container in `net1`.
pub fn attachment(container: &str, ifname: &str) -> Attachment {
    in_network("net1", container, ifname)
}

/// An interface of a container in a network.
pub fn in_network(network: &str, container: &str, ifname: &str) -> Attachment {
    Attachment {
        network: NetworkName::parse(network).expect("a network"),
        container: ContainerId::parse(container).expect("a container"),
        ifname: IfName::parse(ifname).expect("an interface"),
    }
}
