//! A chained plugin, called alone, after a bridge plugin that never ran.
//!
//! The test supplies the result of the plugins before it, and so chooses the container's addresses without attaching it.
//! The network is `n1`, the interface `eth0`.

use serde_json::{Value, json};

use crate::keys;
use crate::plugin::{Invocation, Verb};
use crate::sandbox::Sandbox;

/// One plugin's configuration for one container.
#[derive(Debug, Clone)]
pub struct Standalone<'s> {
    /// `CNI_CONTAINERID`
    pub id: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// Standard input.
    pub config: Value,
    sandbox: &'s Sandbox,
    plugin: String,
    environment: Vec<(String, String)>,
}

impl<'s> Standalone<'s> {
    /// Takes the result of the plugins before, and the plugin's own keys.
    ///
    /// # Panics
    /// As [`keys::with`].
    #[track_caller]
    pub fn new(sandbox: &'s Sandbox, plugin: &str, id: &str, prev_result: &Value, keys: &Value) -> Self {
        let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": plugin, "prevResult": prev_result});
        let config = keys::with(&config, keys);
        let (id, ifname, plugin) = (id.to_owned(), "eth0".to_owned(), plugin.to_owned());
        Self { id, ifname, config, sandbox, plugin, environment: Vec::new() }
    }

    /// Takes another value for a key of the configuration.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    /// Attaches the same container to another network, by another interface, or both.
    #[must_use]
    pub fn in_network(mut self, network: &str, ifname: &str) -> Self {
        ifname.clone_into(&mut self.ifname);
        self.with("name", json!(network))
    }

    /// Sets a variable for every call.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.environment.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Prepares a call.
    pub fn call(&self, verb: Verb) -> Invocation {
        let call = Invocation::new(self.sandbox, &self.plugin, verb)
            .container_id(&self.id)
            .ifname(&self.ifname)
            .netns(&format!("/run/netns/{}", self.id))
            .config(&self.config);
        self.environment.iter().fold(call, |call, (key, value)| call.env(key, value))
    }

    /// Runs ADD, which must succeed, and returns the result that it prints.
    #[track_caller]
    pub fn add(&self) -> Value {
        self.call(Verb::Add).run().result()
    }

    /// Runs CHECK, which must succeed.
    #[track_caller]
    pub fn check(&self) {
        self.call(Verb::Check).run().expect_success();
    }

    /// Runs DEL, which must succeed.
    #[track_caller]
    pub fn del(&self) {
        self.call(Verb::Del).run().expect_success();
    }

    /// Runs GC with these containers' attachments as the valid ones of the network, which must succeed.
    #[track_caller]
    pub fn gc(&self, valid: &[&Self]) {
        let entry = |lone: &&Self| json!({"containerID": lone.id, "ifname": lone.ifname});
        let valid: Value = valid.iter().map(entry).collect();
        let mut network = self.clone();
        keys::set(&mut network.config, &json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": valid}));
        network.config.as_object_mut().expect("a configuration").remove("prevResult");
        network.call(Verb::Gc).run().expect_success();
    }
}

/// Writes the result of a bridge plugin; the container's interface has all the addresses.
pub fn bridge_result(bridge: &str, addresses: &[&str]) -> Value {
    let ips: Value = addresses.iter().map(|address| json!({"address": address, "interface": 2})).collect();
    let interfaces = json!([{"name": bridge}, {"name": "veth0"}, {"name": "eth0", "sandbox": "/run/netns/ctr1"}]);
    json!({"cniVersion": "1.0.0", "interfaces": interfaces, "ips": ips})
}
