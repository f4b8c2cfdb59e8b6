//! A routed network, its containers, and what they share.

use cni_conformance::keys::with;
use cni_conformance::{Container, ListHost, Network, Skeleton, State};
use serde_json::{Value, json};

pub const V4: &str = "10.1.2.0/24";
pub const V6: &str = "fd00:1::/64";

/// A list whose only plugin is ptp, with a default route for each subnet.
pub fn network(subnets: &[&str], keys: &Value) -> Value {
    let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    let default = |subnet: &&str| json!({"dst": if subnet.contains(':') { "::/0" } else { "0.0.0.0/0" }});
    let routes: Value = subnets.iter().map(default).collect();
    with_ipam(&json!({"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"}), keys)
}

/// The same with any IPAM plugin.
fn with_ipam(ipam: &Value, keys: &Value) -> Value {
    let plugin = with(&json!({"type": "ptp", "ipam": ipam}), keys);
    json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [plugin]})
}

/// The host without what nf_tables holds.
pub fn state(host: &ListHost) -> State {
    host.state().without("nftables")
}

/// Requires that nothing changed on the host but what containers share.
#[track_caller]
pub fn left_nothing_since(before: &State, host: &ListHost) {
    let shared = Skeleton::on_bridge("none").with_leases("/run/cni/net1", 4);
    let shared = shared.with_gateway("10.1.2.1", V4).with_gateway("fd00:1::1", V6);
    shared.assert_nothing_else(before, || state(host));
}

/// The addresses of a container, without prefix length.
pub fn addresses(container: &Container) -> Vec<std::net::IpAddr> {
    let found = Network::observe(container).addresses_of("eth0");
    let address = |cidr: &String| cidr.split('/').next().and_then(|text| text.parse().ok());
    found.iter().map(|cidr| address(cidr).unwrap_or_else(|| panic!("an address: {cidr}"))).collect()
}
