//! The plugin that a case of the SPEC is carried out for, with a list that it accepts.
//!
//! Such a case has no list of its own. It gets the plugin's small configuration of `plugin.json`; a plugin that asks an IPAM plugin, and one
//! that comes after others in a list, get a [stand-in](STAND_IN) for these, so that a verdict is about this plugin alone.

pub use cni_catalog::PluginKind;
use cni_catalog::{Damage, test_data};
use serde_json::{Value, json};

use crate::container::Container;
use crate::flannel;
use crate::kernel::Feature;
use crate::keys::with;
use crate::plugins;
use crate::sandbox::Sandbox;

/// The types of the stand-ins, which are one script.
pub const IPAM: &str = "cni-conformance-ipam";
pub const LINK: &str = "cni-conformance-link";

/// A script that plays an IPAM plugin, or a plugin before a chained one, and writes down its calls.
pub const STAND_IN: &str = include_str!("stand-in.sh");

/// A plugin, and what its calls need.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Its type.
    pub plugin: String,
    /// Its kind.
    pub kind: PluginKind,
    /// The keys of its configuration beside those that every one has.
    keys: Value,
    /// Whether this project knows it, with all that its row says.
    is_known: bool,
}

impl Subject {
    /// A plugin that this project knows.
    ///
    /// # Panics
    /// If it does not.
    pub fn known(plugin: &str) -> Self {
        let (kind, keys) = (plugins::kind(plugin), test_data(plugin).real.clone());
        let keys = if kind == PluginKind::Interface { with(&json!({"ipam": {"type": IPAM}}), &keys) } else { keys };
        Self { plugin: plugin.to_owned(), kind, keys, is_known: true }
    }

    /// An unknown plugin by a configuration of it: with a `prevResult` it is a chained one, and an IPAM plugin if `ipam` names the plugin
    /// itself.
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
            keys.retain(|key, _| !["cniVersion", "name", "type", "prevResult"].contains(&key.as_str()));
        }
        Self { plugin: plugin.to_owned(), kind, keys, is_known: false }
    }

    /// Its list in a version.
    pub fn list(&self, version: &str) -> Value {
        let own = with(&json!({"type": self.plugin}), &self.keys);
        let plugins = if self.kind == PluginKind::Chained { json!([{"type": LINK}, own]) } else { json!([own]) };
        json!({"cniVersion": version, "name": "n1", "plugins": plugins})
    }

    /// The stand-in that it needs beside itself.
    pub fn stand_in(&self) -> Option<&'static str> {
        match self.kind {
            PluginKind::Chained => Some(LINK),
            PluginKind::Interface if self.is_known => Some(IPAM),
            PluginKind::Interface | PluginKind::Ipam | PluginKind::Loopback => None,
        }
    }

    /// The interface that its calls are about.
    pub fn ifname(&self) -> &'static str {
        if self.kind == PluginKind::Loopback { "lo" } else { "eth0" }
    }

    /// `CNI_ARGS`.
    pub fn args(&self) -> &'static str {
        if self.is_known { test_data(&self.plugin).args.as_deref().unwrap_or_default() } else { "" }
    }

    /// Why its ADD cannot work here.
    pub fn lacks(&self) -> Option<String> {
        let feature = plugins::needs(&self.plugin).filter(|feature: &Feature| self.is_known && !feature.is_here());
        match (feature, self.plugin.as_str()) {
            (Some(feature), _) => Some(format!("the running kernel lacks what ADD needs: {feature}")),
            (None, "dhcp") => Some("ADD needs a server in the network".to_owned()),
            (None, _) => None,
        }
    }

    /// How to remove what it made, if its row says it.
    pub fn damage(&self) -> Option<&'static Damage> {
        if self.is_known { test_data(&self.plugin).damage.as_ref() } else { None }
    }

    /// Whether it is one of these: `all`, a kind, `delegating`, `damageable`, the name of a plugin. `-NAME` takes one out.
    pub fn is_one_of(&self, words: &[String]) -> bool {
        let is = |word: &str| match word {
            "all" => true,
            "interface" => self.kind == PluginKind::Interface,
            "chained" => self.kind == PluginKind::Chained,
            "ipam" => self.kind == PluginKind::Ipam,
            "loopback" => self.kind == PluginKind::Loopback,
            "delegating" => self.is_known && self.kind == PluginKind::Interface,
            "damageable" => self.damage().is_some(),
            name => self.plugin == name,
        };
        let is_out = words.iter().filter_map(|word| word.strip_prefix('-')).any(is);
        !is_out && (words.iter().all(|word| word.starts_with('-')) || words.iter().any(|word| is(word)))
    }

    /// Prepares the host for its ADD.
    ///
    /// # Panics
    /// If a command fails.
    pub fn prepare(&self, sandbox: &Sandbox) {
        if !self.is_known {
            return;
        }
        for command in &test_data(&self.plugin).prepare {
            sandbox.host().must(&["sh", "-ec", command]);
        }
        if self.plugin == "flannel" {
            flannel::write_lease(&flannel::lease("10.88.0.0/16", "10.88.0.1/24", 1450));
        }
    }

    /// Prepares a container for its ADD.
    pub fn prepare_container(&self, container: &Container) {
        if self.kind == PluginKind::Loopback {
            // The kernel gives lo its addresses when it comes up for the first time.
            container.ip(&["link set lo up", "link set lo down"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_plugins() {
        let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let rows: [(&[&str], &[&str]); 5] = [
            (&["chained", "loopback"], &["firewall", "loopback"]),
            (&["all"], &["bridge", "firewall", "host-local", "loopback"]),
            (&["-bridge"], &["firewall", "host-local", "loopback"]),
            (&["delegating"], &["bridge"]),
            (&["ipam", "interface", "-bridge"], &["host-local"]),
        ];
        for (words, expected) in rows {
            let all = ["bridge", "firewall", "host-local", "loopback"];
            let found: Vec<&str> = all.into_iter().filter(|name| Subject::known(name).is_one_of(&of(words))).collect();
            assert_eq!(found, expected, "{words:?}");
        }
    }

    #[test]
    fn a_configuration_tells_the_kind_of_an_unknown_plugin() {
        let kind = |keys: Value| Subject::foreign("own", &keys).kind;
        assert_eq!(kind(json!({"prevResult": {}})), PluginKind::Chained);
        assert_eq!(kind(json!({"ipam": {"type": "own"}})), PluginKind::Ipam);
        assert_eq!(kind(json!({"ipam": {"type": "host-local"}})), PluginKind::Interface);
    }
}
