//! The interfaces in the result of ADD.

use cni_core::result::{CniResult, Dns, Interface};
use cni_model::link::Link;

/// The answer for a network without IPAM: name resolution, and no address.
pub fn layer_two(dns: &Dns) -> CniResult {
    CniResult { dns: dns.clone(), ..CniResult::default() }
}

/// A link as it is printed in the result: `sandbox` is `CNI_NETNS` as given, and empty for a link on the host.
pub fn described(link: &Link, sandbox: &str) -> Interface {
    Interface {
        name: link.name.clone(),
        mac: link.mac.as_ref().map(ToString::to_string).unwrap_or_default(),
        sandbox: sandbox.to_owned(),
        ..Interface::default()
    }
}
