//! The plugins under test: what each is, and a small configuration that it accepts.

pub use cni_catalog::PluginKind;
use serde_json::{Value, json};

use cni_conformance::keys::with;
use cni_conformance::{Feature, plugins};

/// A plugin under test.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginUnderTest {
    /// The name of its binary.
    pub plugin: String,
    /// The kind of the plugin.
    pub kind: PluginKind,
    /// Whether the suite knows it, with all that its page says.
    pub known: bool,
    /// The kernel feature that its ADD needs.
    pub needs: Option<Feature>,
    /// The keys of its configuration beside those that every one has.
    pub keys: Value,
}

/// The uplink that some plugins hang their interface on.
pub const UPLINK: &str = "up0";
/// The bridge of the bridge plugin.
pub const BRIDGE: &str = "br0";
/// host-local's directory of leases.
pub const LEASES: &str = "/run/leases";

impl PluginUnderTest {
    /// Returns a plugin that the suite knows.
    ///
    /// # Panics If it does not.
    pub fn of(plugin: &str) -> Self {
        let (kind, keys) = row(plugin);
        Self { plugin: plugin.to_owned(), kind, known: true, needs: plugins::needs(plugin), keys }
    }

    /// Describes an unknown plugin by a configuration of it: one with a `prevResult` is for a chained plugin, one whose
    /// `ipam` names the plugin itself is for an IPAM plugin.
    pub fn foreign(plugin: &str, configuration: &Value) -> Self {
        let kind = if configuration.get("prevResult").is_some() {
            PluginKind::Chained
        } else if configuration["ipam"]["type"] == *plugin {
            PluginKind::Ipam
        } else {
            PluginKind::Interface
        };
        let mut keys = configuration.clone();
        if let Some(keys) = keys.as_object_mut() {
            for set_by_cases in ["cniVersion", "name", "type", "prevResult"] {
                keys.remove(set_by_cases);
            }
        }
        Self { plugin: plugin.to_owned(), kind, known: false, needs: None, keys }
    }

    /// The interface that calls are about.
    pub fn ifname(&self) -> &'static str {
        match self.kind {
            PluginKind::Loopback => "lo",
            PluginKind::Interface | PluginKind::Chained | PluginKind::Ipam => "eth0",
        }
    }

    /// `CNI_ARGS`.
    pub fn args(&self) -> &'static str {
        if self.known { cni_catalog::test_data(&self.plugin).args.as_deref().unwrap_or_default() } else { "" }
    }

    /// Whether its ADD works without another service.
    pub fn stands_alone(&self) -> bool {
        self.plugin != "dhcp"
    }

    /// Whether it calls an IPAM plugin.
    pub fn delegates(&self) -> bool {
        self.known && self.kind == PluginKind::Interface
    }
}

/// The addresses of one network by host-local.
pub fn host_local() -> Value {
    json!({
        "type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": LEASES,
    })
}

fn row(plugin: &str) -> (PluginKind, Value) {
    let (kind, keys) = (plugins::kind(plugin), &cni_catalog::test_data(plugin).real);
    match kind {
        PluginKind::Interface => (kind, with(&json!({"ipam": {"type": super::ipam::IPAM}}), keys)),
        PluginKind::Loopback | PluginKind::Chained | PluginKind::Ipam => (kind, keys.clone()),
    }
}
