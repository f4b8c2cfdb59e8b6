//! The plugins of the binary under test, and which of them the running kernel can serve.

use crate::kernel::Feature;

/// Every plugin, by its name in configurations.
pub const ALL: [&str; 19] = [
    "loopback",
    "bridge",
    "ptp",
    "dummy",
    "macvlan",
    "host-device",
    "tap",
    "vlan",
    "ipvlan",
    "host-local",
    "dhcp",
    "static",
    "firewall",
    "portmap",
    "tuning",
    "bandwidth",
    "sbr",
    "vrf",
    "consul-cni",
];

/// The plugins whose ADD the running kernel can carry out. What the others do is shown in
/// `tests/other_kernel.rs`, on a kernel that can; what dhcp does, which needs a server, in `tests/dhcp`.
pub fn that_can_add() -> Vec<&'static str> {
    ALL.into_iter().filter(|plugin| *plugin != "dhcp" && needs(plugin).is_none_or(Feature::is_here)).collect()
}

/// What a plugin's ADD needs of the kernel.
pub fn needs(plugin: &str) -> Option<Feature> {
    match plugin {
        "dummy" => Some(Feature::DummyLinks),
        "macvlan" => Some(Feature::MacvlanLinks),
        "vlan" => Some(Feature::VlanLinks),
        "ipvlan" => Some(Feature::IpvlanLinks),
        "vrf" => Some(Feature::VrfLinks),
        _ => None,
    }
}
