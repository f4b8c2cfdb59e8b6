//! What this binary contains.

use cni_plugin::run::Plugin;

/// Every plugin of this binary, in the order in which they are listed.
pub const PLUGINS: [&dyn Plugin; 19] = [
    &cni_bandwidth::Bandwidth,
    &cni_bridge::Bridge,
    &cni_consul_cni::ConsulCni,
    &cni_dhcp::Dhcp,
    &cni_dummy::Dummy,
    &cni_firewall::Firewall,
    &cni_host_device::HostDevice,
    &cni_host_local::HostLocal,
    &cni_ipvlan::Ipvlan,
    &cni_loopback::Loopback,
    &cni_macvlan::Macvlan,
    &cni_portmap::Portmap,
    &cni_ptp::Ptp,
    &cni_sbr::Sbr,
    &cni_static::Static,
    &cni_tap::Tap,
    &cni_tuning::Tuning,
    &cni_vlan::Vlan,
    &cni_vrf::Vrf,
];

/// The version of this repository, which the plugins report behind that of the reference.
pub const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");
