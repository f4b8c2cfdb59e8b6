//! The table of the plugins that the binary contains, and how it calls one of them inside the process.

use cni_core::request::Environment;
use cni_linux::contained;
use cni_linux::delegate::DelegateAnswer;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

#[cfg(test)]
mod tests;

/// Every plugin of this binary, in the order in which they are listed.
pub const PLUGINS: [&dyn Plugin; 21] = [
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
    &cni_route_override::RouteOverride,
    &cni_sbr::Sbr,
    &cni_static::Static,
    &cni_tap::Tap,
    &cni_tc_redirect_tap::TcRedirectTap,
    &cni_tuning::Tuning,
    &cni_vlan::Vlan,
    &cni_vrf::Vrf,
];

/// The version of this repository, which the plugins report behind that of the reference.
pub const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The plugin of a type; `None` when the binary does not contain it.
pub fn plugin(kind: &str) -> Option<&'static dyn Plugin> {
    PLUGINS.into_iter().find(|plugin| plugin.kind() == kind)
}

/// Calls a delegate. One that has a share of attachments takes locks, which belong to the whole process, so it gets a
/// process of its own; IPAM plugins have none.
pub fn call_delegate(kind: &str, environment: Environment, stdin: &[u8]) -> Option<DelegateAnswer> {
    let plugin = plugin(kind).filter(|plugin| plugin.share() == Share::Nothing)?;
    Some(contained::call(plugin, OUR_VERSION, environment, stdin))
}
