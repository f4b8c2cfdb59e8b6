//! Whose things are in the tests of this crate.

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_core::request::{Call, Environment, Request};
use cni_core::version::Version;

/// An interface of a container in `net1`.
pub fn attachment(container: &str, ifname: &str) -> Attachment {
    Attachment {
        network: NetworkName::parse("net1").expect("network"),
        container: ContainerId::parse(container).expect("container"),
        ifname: IfName::parse(ifname).expect("interface"),
    }
}

/// DEL of the interface `eth0` of `c1` in `net1`, with its namespace at this path.
pub fn request(netns: &str) -> Request {
    let variables = [("CNI_CONTAINERID", "c1"), ("CNI_NETNS", netns), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/p")];
    let environment = Environment::new(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let config = br#"{"cniVersion":"1.1.0","name":"net1","type":"dummy"}"#;
    let call = Call::parse("DEL", environment).expect("a call");
    call.with_config(config.to_vec(), Version::ALL).expect("a request")
}
