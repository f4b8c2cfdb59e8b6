//! The table of the plugins that the binary contains, and how it calls one of them inside the process.

use cni_core::request::Environment;
use cni_linux::delegate::DelegateAnswer;
use cni_linux::host::{ContainedCall, call_contained};
use cni_plugin::run::Plugin;

#[cfg(test)]
mod tests;

/// Every plugin of this binary, in the order in which they are listed.
pub const PLUGINS: [&dyn Plugin; 22] = [
    &cni_bandwidth::Bandwidth,
    &cni_bridge::Bridge,
    &cni_consul_cni::ConsulCni,
    &cni_dhcp::Dhcp,
    &cni_dummy::PLUGIN,
    &cni_firewall::Firewall,
    &cni_flannel::Flannel,
    &cni_host_device::HostDevice,
    &cni_host_local::HostLocal,
    &cni_ipvlan::PLUGIN,
    &cni_loopback::Loopback,
    &cni_macvlan::PLUGIN,
    &cni_portmap::Portmap,
    &cni_ptp::Ptp,
    &cni_route_override::RouteOverride,
    &cni_sbr::Sbr,
    &cni_static::Static,
    &cni_tap::PLUGIN,
    &cni_tc_redirect_tap::TcRedirectTap,
    &cni_tuning::Tuning,
    &cni_vlan::PLUGIN,
    &cni_vrf::Vrf,
];

/// The version of this repository, which the plugins report behind that of the reference.
pub const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the plugin for a name: the plugin's own, or that followed by a hyphen and anything, so that one host can have
/// `flannel-wg` beside `flannel`. Returns `None` if the binary does not contain it.
pub fn plugin(name: &str) -> Option<&'static dyn Plugin> {
    longest(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

/// Returns the plugin for a file by its names: its own, then those of the links that it leads through. If no name is a plugin's by
/// [`plugin`], one that ends with a hyphen and a plugin's name is, as `cnv-bridge`.
pub fn plugin_of_file(names: impl Iterator<Item = String> + Clone) -> Option<&'static dyn Plugin> {
    let ends_with = |name: String| longest(|kind| name.strip_suffix(kind).is_some_and(|rest| rest.ends_with('-')));
    names.clone().find_map(|name| plugin(&name)).or_else(|| { names }.find_map(ends_with))
}

/// The plugin with the longest of the names that fit: `host-local` is more than `local`.
fn longest(fits: impl Fn(&str) -> bool) -> Option<&'static dyn Plugin> {
    PLUGINS.iter().copied().filter(|plugin| fits(plugin.kind())).max_by_key(|plugin| plugin.kind().len())
}

/// Calls a delegate. It takes no locks of attachments: those belong to the whole process, and a delegate works under those
/// of its caller.
pub fn call_delegate(name: &str, environment: Environment, stdin: &[u8]) -> Option<DelegateAnswer> {
    let call = ContainedCall { version: OUR_VERSION, contained: call_delegate };
    Some(call_contained(plugin(name)?, call, environment, stdin))
}
