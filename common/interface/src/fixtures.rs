//! Whose things are in the tests of this crate.

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};

/// An interface of a container in `net1`.
pub fn attachment(container: &str, ifname: &str) -> Attachment {
    Attachment {
        network: NetworkName::parse("net1").expect("network"),
        container: ContainerId::parse(container).expect("container"),
        ifname: IfName::parse(ifname).expect("interface"),
    }
}
