//! Requests for the tests of this crate.

use cni_core::names::Attachment;
use cni_core::request::{Call, Environment, Request};
use cni_core::version::Version;

/// The request of an ADD with this configuration.
pub fn request(config: &str) -> Request {
    let variables = [
        ("CNI_CONTAINERID", "id1"),
        ("CNI_NETNS", "/run/netns/id1"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let call = Call::parse("ADD", Environment::new(variables)).expect("a call");
    call.with_config(config.as_bytes().to_vec(), Version::ALL).expect("a request")
}

/// The interface `eth0` of the container `id1` in `net1`.
pub fn attachment() -> Attachment {
    request(r#"{"cniVersion":"1.0.0","name":"net1","type":"bridge"}"#).attachment().expect("an attachment")
}
