//! The moment before one plugin's ADD, when all plugins before it in the list have done theirs.

use cni_catalog::{PluginKind, test_data};
use cni_conformance::keys::with;
use cni_conformance::{
    Attachment, CniError, Container, Flavour, Invocation, Nomad, Outcome, PortMapping, Runtime, Sandbox, Skeleton,
    Spelling, State, Verb, flannel, plugins,
};
use serde_json::{Value, json};

/// What Nomad sends to `consul-cni`, in short.
const CONSUL: &str = r#"IgnoreUnknown=true;CONSUL_IPTABLES_CONFIG={"ConsulDNSIP":"192.0.2.53","ConsulDNSPort":8600,"ProxyUserID":"101","ProxyInboundPort":20000,"ExcludeInboundPorts":["9002"]}"#;

/// The machine, the container, and the plugin whose turn it is.
pub struct RollbackHost {
    pub sandbox: Sandbox,
    pub container: Container,
    pub attachment: Attachment,
    nomad: Nomad,
    list: Value,
    pub plugin: &'static str,
    previous: Option<Value>,
}

impl RollbackHost {
    /// Prepares Nomad's list up to this plugin; an IPAM plugin stands for itself, with the configuration
    /// that bridge would hand it.
    pub fn new(plugin: &'static str, nomad: &Nomad, flavour: Flavour) -> Self {
        let mut list = nomad.conflist();
        if plugin == "host-local" {
            list["plugins"] = json!([{"type": "host-local", "ipam": list["plugins"][1]["ipam"]}]);
        }
        if !has(&list, plugin) {
            let data = test_data(plugin);
            let keys = with(&json!({"type": plugin}), data.failing.as_ref().unwrap_or(&data.real));
            match plugins::kind(plugin) {
                PluginKind::Chained => {
                    list["plugins"].as_array_mut().expect("a configuration list has plugins").push(keys);
                }
                PluginKind::Interface => {
                    let ipam = json!({"ipam": list["plugins"][1]["ipam"]});
                    list["plugins"] = json!([with(&ipam, &keys)]);
                }
                PluginKind::Ipam | PluginKind::Loopback => list["plugins"] = json!([keys]),
            }
        }
        Self::with_list(plugin, nomad, list, flavour)
    }

    /// Prepares Nomad's list up to this plugin, with iptables asked for by name wherever it is the choice
    /// of the plugin, so that its absence is a failure.
    pub fn on_iptables(plugin: &'static str, nomad: &Nomad, flavour: Flavour) -> Self {
        let mut list = nomad.conflist();
        for element in list["plugins"].as_array_mut().expect("a configuration list has plugins") {
            match element["type"].as_str() {
                Some("bridge") => element["ipMasqBackend"] = json!("iptables"),
                Some("portmap") => element["backend"] = json!("iptables"),
                _ => {}
            }
        }
        Self::with_list(plugin, nomad, list, flavour)
    }

    /// Prepares any list up to this plugin.
    pub fn with_list(plugin: &'static str, nomad: &Nomad, list: Value, flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        nomad.ensure_forwarding_rules(&sandbox);
        // The bridge of the delegate is like that of other lists.
        flannel::write_lease(&flannel::lease("172.26.64.0/20", "172.26.64.1/20", 1500));
        for command in &test_data(plugin).prepare {
            sandbox.sh(command);
        }
        let container = sandbox.container("stage");
        let attachment = Attachment::new("stage", &container).ports(&PortMapping::twins(8080, 80), Spelling::Go);
        let attachment = if plugin == "consul-cni" { attachment.args(CONSUL) } else { attachment };
        let mut machine = Self { sandbox, container, attachment, nomad: nomad.clone(), list, plugin, previous: None };
        machine.previous = machine.result_of_earlier_plugins();
        machine
    }

    fn result_of_earlier_plugins(&self) -> Option<Value> {
        let plugins = self.list["plugins"].as_array().expect("a configuration list has plugins");
        let earlier = plugins.iter().take_while(|plugin| plugin["type"] != self.plugin);
        earlier.fold(None, |previous, plugin| {
            let name = plugin["type"].as_str().expect("a plugin has a type");
            Some(self.runtime().invocation(Verb::Add, name, &self.attachment, previous.as_ref()).run().result())
        })
    }

    pub fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    /// Prepares the plugin's ADD.
    pub fn add(&self) -> Invocation {
        self.runtime().invocation(Verb::Add, self.plugin, &self.attachment, self.previous.as_ref())
    }

    /// Prepares the plugin's CHECK of what ADD answered.
    pub fn check(&self, result: &Value) -> Invocation {
        self.runtime().invocation(Verb::Check, self.plugin, &self.attachment, Some(result))
    }

    /// Prepares the plugin's DEL of what ADD answered.
    pub fn del(&self, result: &Value) -> Invocation {
        self.runtime().invocation(Verb::Del, self.plugin, &self.attachment, Some(result))
    }

    /// Takes a snapshot, without the address that the kernel leaves on a `lo` that was up once.
    pub fn state(&self) -> State {
        let state = State::capture(&self.sandbox, &[&self.container]);
        match self.plugin {
            "loopback" => state.without("stage addresses"),
            "consul-cni" => state.with_nat_of(&self.container),
            _ => state,
        }
    }

    /// Runs an ADD that must fail, with one error object that has all these words, and leave nothing.
    #[track_caller]
    pub fn fails(&self, invocation: &Invocation, says: &[&str]) -> CniError {
        let before = self.state();
        let outcome = invocation.run();
        let error = outcome.error();
        let text = format!("{}: {}", error.msg, error.details);
        for words in says {
            assert!(text.contains(words), "must say {words:?}: {outcome}");
        }
        self.left_nothing_since(&before);
        error
    }

    #[track_caller]
    pub fn left_nothing_since(&self, before: &State) {
        Skeleton::of(&self.nomad).assert_nothing_else(before, || self.state());
    }

    /// Runs the plugin's ADD again, and CHECK after it, which must both succeed.
    #[track_caller]
    pub fn succeeds_now(&self) -> Outcome {
        let outcome = self.add().run();
        self.check(&outcome.result()).run().expect_success();
        outcome
    }
}

/// Whether a list has a plugin.
fn has(list: &Value, plugin: &str) -> bool {
    list["plugins"].as_array().is_some_and(|plugins| plugins.iter().any(|one| one["type"] == plugin))
}

/// The networks that every failure is tried in.
pub fn networks() -> [(&'static str, Nomad); 2] {
    [("v4", Nomad::default()), ("v4 and v6", Nomad::default().dual_stack())]
}
