//! A host with an interface that containers get: one end of a veth pair, whose other end stays on the host as `far`.

use cni_conformance::keys::with;
use cni_conformance::{Attachment, Chain, Container, Network, Runtime, Sandbox, Skeleton, State};
use serde_json::{Value, json};

/// The MAC address of the interface.
pub const MAC: &str = "02:00:00:00:00:0a";

/// A list whose only plugin is host-device.
pub fn list(keys: &Value) -> Value {
    let plugin = with(&json!({"type": "host-device"}), keys);
    json!({"cniVersion": "1.1.0", "name": "net1", "plugins": [plugin]})
}

/// By name, without addresses.
pub fn by_name() -> Value {
    list(&json!({"device": "ens1"}))
}

/// By name, with addresses of both families.
pub fn addressed() -> Value {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "10.9.0.0/16"}], "dataDir": "/run/cni",
    });
    list(&json!({"device": "ens1", "ipam": ipam}))
}

pub struct Host {
    pub sandbox: Sandbox,
    pub list: Value,
}

impl Host {
    /// The interface is up, has an alias of the administrator, and is a port of `br9`.
    pub fn new(list: Value) -> Self {
        let host = Self { sandbox: Sandbox::new(), list };
        for line in [
            "ip link add br9 address 02:00:00:00:00:99 type bridge".to_owned(),
            "ip link set br9 up".to_owned(),
            format!("ip link add ens1 address {MAC} mtu 1400 type veth peer name far address 02:00:00:00:00:0b"),
            "ip link set ens1 alias uplink".to_owned(),
            "ip link set ens1 master br9".to_owned(),
            "ip link set ens1 up".to_owned(),
            "ip link set far up".to_owned(),
        ] {
            host.sandbox.sh(&line);
        }
        host
    }

    pub fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    #[track_caller]
    pub fn add(&self, name: &str) -> (Container, Attachment) {
        let container = self.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container);
        self.runtime().add(&mut attachment).expect_success();
        (container, attachment)
    }

    pub fn try_to_add(&self, name: &str) -> Chain {
        let container = self.sandbox.container(name);
        self.runtime().add(&mut Attachment::new(name, &container))
    }

    #[track_caller]
    pub fn check(&self, attachment: &Attachment) {
        self.runtime().check(attachment).expect_success();
    }

    #[track_caller]
    pub fn del(&self, attachment: &Attachment) {
        self.runtime().del(attachment).expect_success();
    }

    pub fn state(&self) -> State {
        State::of_host(&self.sandbox)
    }

    /// Requires that the host is as it was, but for what host-local keeps.
    #[track_caller]
    pub fn is_as_before(&self, before: &State) {
        let shared = Skeleton::on_bridge("none").with_leases("/run/cni/net1", 2);
        shared.assert_nothing_else(before, || self.state());
    }

    /// Whether the host has a link of a name.
    pub fn has(&self, name: &str) -> bool {
        Network::observe(self.sandbox.host()).link(name).is_some()
    }
}

pub fn has(container: &Container, name: &str) -> bool {
    Network::observe(container).link(name).is_some()
}
