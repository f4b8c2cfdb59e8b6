//! One row of the table: a network, and the containers that come and go in it.

use cni_conformance::{Flavour, PortMapping};
use serde_json::{Value, json};

use crate::reference::Level;

/// A plugin whose CHECK fails in the reference, right after its own ADD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenCheck {
    pub plugin: &'static str,
    /// Up to this reference.
    pub until: Level,
    /// What it says; the reason stands with the row.
    pub says: &'static str,
}

impl BrokenCheck {
    /// The same of another plugin.
    pub fn of(self, plugin: &'static str) -> Self {
        Self { plugin, ..self }
    }
}

/// It looks for an IPAM plugin without a name.
pub const LAYER_TWO: BrokenCheck = BrokenCheck { plugin: "bridge", until: Level::New, says: "no plugin name provided" };

/// It does not know that a route without a router was given the gateway.
pub const ROUTES: BrokenCheck = BrokenCheck { plugin: "bridge", until: Level::Old, says: "Expected Route" };

/// It looks for the rules of one family in the tables of both.
pub const PORTMAP: BrokenCheck = BrokenCheck { plugin: "portmap", until: Level::Old, says: "could not check ipv" };

/// It looks for `IFNAME` itself, and not for the interface.
pub const IFNAME: BrokenCheck = BrokenCheck { plugin: "tuning", until: Level::Old, says: "IFNAME" };

/// How many containers have the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containers {
    /// A second one comes after the first.
    Two,
    /// The first has all that there is, and the reference's second DEL of it says this.
    One {
        /// The words.
        second_del: &'static str,
    },
}

/// A network configuration list, and what is asked of it.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: &'static str,
    pub list: Value,
    /// What was there before, as command lines.
    pub before: Vec<&'static str>,
    /// The ports of the first container and of the second.
    pub ports: [Vec<PortMapping>; 2],
    /// CNI_ARGS of the first container.
    pub args: &'static str,
    pub flavour: Flavour,
    pub needs: Level,
    pub broken_check: Option<BrokenCheck>,
    pub containers: Containers,
}

impl Case {
    /// A list of these plugins for network `net1` in version 0.4.0, which every reference knows.
    pub fn new(name: &'static str, plugins: Value) -> Self {
        Self {
            name,
            list: json!({"cniVersion": "0.4.0", "name": "net1", "plugins": plugins}),
            before: Vec::new(),
            ports: [Vec::new(), Vec::new()],
            args: "",
            flavour: Flavour::Nft,
            needs: Level::Old,
            broken_check: None,
            containers: Containers::Two,
        }
    }

    pub fn version(mut self, version: &str) -> Self {
        self.list["cniVersion"] = json!(version);
        self
    }

    pub fn ports(mut self, first: &[PortMapping], second: &[PortMapping]) -> Self {
        self.ports = [first.to_vec(), second.to_vec()];
        self
    }

    pub fn before(mut self, lines: &[&'static str]) -> Self {
        self.before = lines.to_vec();
        self
    }

    pub fn args(mut self, args: &'static str) -> Self {
        self.args = args;
        self
    }

    pub fn alone(mut self, second_del: &'static str) -> Self {
        self.containers = Containers::One { second_del };
        self
    }

    pub fn on(mut self, flavour: Flavour) -> Self {
        self.flavour = flavour;
        self
    }

    pub fn needs(mut self, level: Level) -> Self {
        self.needs = level;
        self
    }

    pub fn broken_check(mut self, broken: BrokenCheck) -> Self {
        self.broken_check = Some(broken);
        self
    }
}
