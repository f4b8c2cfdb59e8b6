//! A host whose containers get tap devices.

use std::fs;
use std::path::{Path, PathBuf};

use cni_conformance::keys::with;
use cni_conformance::{
    Attachment, Chain, Container, Namespace, Network, Runtime, Sandbox, Skeleton, State, binaries, script,
};
use serde_json::{Value, json};

/// A list whose only plugin is tap.
pub fn list(keys: &Value) -> Value {
    let plugin = with(&json!({"type": "tap"}), keys);
    json!({"cniVersion": "1.1.0", "name": "net1", "plugins": [plugin]})
}

/// With addresses of both families.
pub fn addressed(keys: &Value) -> Value {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "10.9.0.0/16"}], "dataDir": "/run/cni",
    });
    list(&with(&json!({"ipam": ipam}), keys))
}

pub struct Host {
    pub sandbox: Sandbox,
    pub list: Value,
}

impl Host {
    pub fn new(list: Value) -> Self {
        Self { sandbox: Sandbox::new(), list }
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

    pub fn state(&self, containers: &[&Container]) -> State {
        let containers: Vec<&Namespace> = containers.iter().map(|container| &***container).collect();
        State::capture(&self.sandbox, &containers)
    }

    /// Requires that all is as it was, but for what host-local keeps.
    #[track_caller]
    pub fn is_as_before(&self, before: &State, containers: &[&Container]) {
        let shared = Skeleton::on_bridge("none").with_leases("/run/cni/net1", 2);
        shared.assert_nothing_else(before, || self.state(containers));
    }
}

pub fn has(container: &Container, name: &str) -> bool {
    Network::observe(container).link(name).is_some()
}

/// What `ip` tells of the device's kind.
pub fn details(container: &Container) -> String {
    container.must(&["ip", "-details", "link", "show", "dev", "eth0"])
}

/// A folder with the plugins under test and an IPAM plugin `fake` of these lines of shell.
pub fn with_fake(lines: &str) -> PathBuf {
    let folder = Path::new("/run/conformance/with-fake");
    fs::create_dir_all(folder).expect("a folder");
    fs::copy(binaries::under_test().join("cni-plugins"), folder.join("tap")).expect("a copy of the plugin");
    script::install(&folder.join("fake"), lines);
    folder.to_owned()
}
