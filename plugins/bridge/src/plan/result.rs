//! The interfaces that ADD answers.

use cni_core::result::Interface;
use cni_interface::result::described;
use cni_plugin::link::Link;

/// The place of the container's interface in the result.
pub const CONTAINER: i64 = 2;

/// The interfaces of the result: the bridge, the host's end and the container's end of the veth, and the
/// link to the VLAN if that is the gateway.
pub fn interfaces(
    bridge: &Link,
    host: &Link,
    container: &Link,
    sandbox: &str,
    vlan_link: Option<&Link>,
) -> Vec<Interface> {
    let mut interfaces = vec![described(bridge, ""), described(host, ""), described(container, sandbox)];
    interfaces.extend(vlan_link.map(|link| described(link, "")));
    interfaces
}
