//! What ADD answers beside addresses and routes: the interfaces, and name resolution without IPAM.

use cni_core::result::{CniResult, Dns, Interface};
use cni_plugin::link::Link;

/// The result's DNS in a network without IPAM.
pub fn layer_two(dns: &Dns) -> CniResult {
    CniResult { dns: dns.clone(), ..CniResult::default() }
}

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
    let described = |link: &Link, sandbox: &str| Interface {
        name: link.name.clone(),
        mac: link.mac.as_ref().map(ToString::to_string).unwrap_or_default(),
        sandbox: sandbox.to_owned(),
        ..Interface::default()
    };
    let mut interfaces = vec![described(bridge, ""), described(host, ""), described(container, sandbox)];
    interfaces.extend(vlan_link.map(|link| described(link, "")));
    interfaces
}
