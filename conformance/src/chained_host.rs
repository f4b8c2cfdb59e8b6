//! A chained plugin, called alone for a container with real interfaces, with a made-up result of the plugins before
//! it.

use serde_json::{Value, json};

use crate::keys::with;
use crate::losses::Loss;
use crate::{Attachment, Container, Invocation, Outcome, Sandbox, Verb};

/// A host, a container, and the plugin that is called about one of its interfaces.
#[derive(Debug)]
pub struct ChainedHost {
    pub container: Container,
    pub sandbox: Sandbox,
    plugin: &'static str,
    ifname: &'static str,
    reported: Value,
}

impl ChainedHost {
    /// A host and a container without interfaces; the plugin is to be called about `eth0`.
    pub fn new(plugin: &'static str, id: &str) -> Self {
        let sandbox = Sandbox::new();
        let container = sandbox.container(id);
        Self { container, sandbox, plugin, ifname: "eth0", reported: json!({"cniVersion": "1.0.0"}) }
    }

    /// Calls the plugin for another interface.
    #[must_use]
    pub fn about(self, ifname: &'static str) -> Self {
        Self { ifname, ..self }
    }

    /// Sets the result of the plugins before.
    ///
    /// # Panics If it is not an object.
    #[must_use]
    #[track_caller]
    pub fn reported(mut self, result: &Value) -> Self {
        self.reported = with(&self.reported, result);
        self
    }

    /// The container's interface in a result.
    pub fn interface(&self, name: &str) -> Value {
        json!({"name": name, "sandbox": self.container.path()})
    }

    /// Gives the container an interface that leads to a link of the host, both up.
    pub fn add_interface(&self, name: &str, peer: &str, mac: Option<&str>) {
        let mac = mac.map(|mac| format!("address {mac}")).unwrap_or_default();
        let container = self.container.name();
        self.sandbox.sh(&format!("ip link add {peer} type veth peer name {name} {mac} netns {container}"));
        self.container.sh(&format!("ip link set {name} up"));
        self.sandbox.sh(&format!("ip link set {peer} up"));
    }

    /// Prepares a call with these keys.
    pub fn call(&self, verb: Verb, keys: &Value) -> Invocation {
        let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": self.plugin, "prevResult": self.reported});
        let call = Invocation::new(&self.sandbox, self.plugin, verb).container_id(self.container.name());
        call.ifname(self.ifname).netns(self.container.path()).config(&with(&config, keys))
    }

    #[track_caller]
    pub fn run(&self, verb: Verb, keys: &Value) -> Outcome {
        self.call(verb, keys).run()
    }

    /// Runs commands that must succeed.
    #[track_caller]
    pub fn succeeds(&self, verbs: &[Verb], keys: &Value) {
        for verb in verbs {
            self.run(*verb, keys).expect_success();
        }
    }

    /// Loses something, and prepares the DEL that then comes.
    #[track_caller]
    pub fn del_after(&self, loss: Loss, keys: &Value) -> Invocation {
        let mut request = Attachment::new(self.container.name(), &self.container).ifname(self.ifname);
        request.result = Some(self.reported.clone());
        let request = loss.strike(&self.container, request);
        let keys = if request.result.is_some() { keys.clone() } else { with(keys, &json!({"prevResult": null})) };
        self.call(Verb::Del, &keys).netns(&request.netns).args(&request.args)
    }
}
