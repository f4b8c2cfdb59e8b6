//! The lease that flanneld writes for its host.

use std::fs;

/// The default path of the lease.
pub const SUBNET_FILE: &str = "/run/flannel/subnet.env";

/// A lease of networks of both families.
pub const BOTH_FAMILIES: &str = "FLANNEL_NETWORK=10.88.0.0/16\nFLANNEL_SUBNET=10.88.0.1/24\n\
    FLANNEL_IPV6_NETWORK=fd00:88::/56\nFLANNEL_IPV6_SUBNET=fd00:88::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";

/// A lease of a network and this host's part of it, with the address of the gateway.
#[must_use]
pub fn lease(network: &str, subnet: &str, mtu: u32) -> String {
    format!("FLANNEL_NETWORK={network}\nFLANNEL_SUBNET={subnet}\nFLANNEL_MTU={mtu}\nFLANNEL_IPMASQ=true\n")
}

/// Writes a lease as flanneld does: to a temporary file, which is then renamed.
///
/// # Panics If that fails.
pub fn write_lease(text: &str) {
    fs::create_dir_all("/run/flannel").expect("a folder for the lease");
    fs::write("/run/flannel/subnet.env.new", text).expect("write the lease");
    fs::rename("/run/flannel/subnet.env.new", SUBNET_FILE).expect("put the lease in place");
}
