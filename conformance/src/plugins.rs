//! The plugins of the binary under test, and those that the running kernel supports.

use cni_catalog::PluginKind;

use crate::kernel::Feature;

/// Every plugin, by its name in configurations.
pub const ALL: [&str; cni_catalog::NAMES.len()] = cni_catalog::NAMES;

/// The plugins whose ADD the running kernel supports. `tests/other_kernel.rs` tests the others on a kernel that does;
/// `tests/dhcp` tests dhcp, which needs a server.
pub fn that_can_add() -> Vec<&'static str> {
    ALL.into_iter().filter(|plugin| *plugin != "dhcp" && needs(plugin).is_none_or(Feature::is_here)).collect()
}

/// The plugins that the running kernel can serve and that read `prevResult` on ADD: chained ones, and loopback.
pub fn that_read_prev_result() -> Vec<&'static str> {
    let reads = |plugin: &&str| matches!(kind(plugin), PluginKind::Chained | PluginKind::Loopback);
    that_can_add().into_iter().filter(reads).collect()
}

/// The kind of a plugin.
///
/// # Panics If there is no such plugin.
pub fn kind(plugin: &str) -> PluginKind {
    cni_catalog::entry(plugin).unwrap_or_else(|| panic!("no plugin {plugin}")).kind
}

/// The kernel feature that a plugin's ADD needs.
///
/// # Panics If it is a kind of link without a feature.
pub fn needs(plugin: &str) -> Option<Feature> {
    let link = cni_catalog::entry(plugin)?.kernel_link.as_deref()?;
    Some(Feature::of_link(link).unwrap_or_else(|| panic!("conformance/src/kernel.rs: no feature for links {link}")))
}
