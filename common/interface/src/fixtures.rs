//! Attachments and results for the tests of this crate.

use cni_core::names::Attachment;
use cni_core::request::Request;

/// An interface of a container in `net1`.
pub fn attachment(container: &str, ifname: &str) -> Attachment {
    cni_testkit::attachment("net1", container, ifname)
}

/// DEL of the interface `eth0` of `c1` in `net1`, with its namespace at this path.
pub fn request(netns: &str) -> Request {
    let config = r#"{"cniVersion":"1.1.0","name":"net1","type":"dummy"}"#;
    cni_testkit::request("DEL", &[("CNI_NETNS", netns)], config)
}
