//! Attachments for the tests of this crate.

use cni_core::names::Attachment;

/// An interface of a container in `net1`.
pub fn attachment(container: &str, ifname: &str) -> Attachment {
    cni_testkit::attachment("net1", container, ifname)
}
