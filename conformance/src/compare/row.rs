//! One row of the table: a network, and its containers.

use serde_json::{Value, json};

use crate::reference::Level;
use crate::{Chain, Flavour, PortMapping};

/// A plugin of the reference whose CHECK fails right after its own ADD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenCheck {
    pub plugin: &'static str,
    /// Up to this reference.
    pub until: Level,
    /// How; the reason stands with the row.
    pub how: BrokenHow,
}

/// How a CHECK fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenHow {
    /// With this error.
    Says(&'static str),
    /// Without any: the process dies of itself.
    Crashes,
}

impl BrokenCheck {
    /// The same of another plugin.
    pub fn of(self, plugin: &'static str) -> Self {
        Self { plugin, ..self }
    }

    /// Requires that a CHECK fails so.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn expect(self, check: &Chain) {
        match self.how {
            BrokenHow::Says(text) => drop(check.expect_error(self.plugin, 999, text)),
            BrokenHow::Crashes => assert_eq!(check.step(self.plugin).code(), Some(2), "{check}"),
        }
    }
}

/// It looks for an IPAM plugin without a name.
pub const LAYER_TWO: BrokenCheck =
    BrokenCheck { plugin: "bridge", until: Level::New, how: BrokenHow::Says("no plugin name provided") };

/// It does not know that a route without a router was given the gateway.
pub const ROUTES: BrokenCheck =
    BrokenCheck { plugin: "bridge", until: Level::Old, how: BrokenHow::Says("Expected Route") };

/// It looks for the rules of one family in the tables of both.
pub const PORTMAP: BrokenCheck =
    BrokenCheck { plugin: "portmap", until: Level::Old, how: BrokenHow::Says("could not check ipv") };

/// It looks for `IFNAME` itself, and not for the interface.
pub const IFNAME: BrokenCheck = BrokenCheck { plugin: "tuning", until: Level::Old, how: BrokenHow::Says("IFNAME") };

/// It looks for the gateway in the main table, from which the next plugin has moved the route.
pub const MOVED: BrokenCheck =
    BrokenCheck { plugin: "bridge", until: Level::New, how: BrokenHow::Says("Failed to find Gateway") };

/// It looks for a limit that is not configured.
pub const UNLIMITED: BrokenCheck = BrokenCheck { plugin: "bandwidth", until: Level::Old, how: BrokenHow::Crashes };

/// Which containers are in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containers {
    /// A second one comes after the first.
    Two,
    /// One container, with everything in the row.
    One,
}

/// A network configuration list, and what is asked of it.
#[derive(Debug, Clone)]
pub struct ComparisonRow {
    pub name: &'static str,
    pub list: Value,
    /// Commands that prepare the host.
    pub before: Vec<&'static str>,
    /// The ports of the first container and of the second.
    pub ports: [Vec<PortMapping>; 2],
    /// CNI_ARGS of the first container.
    pub args: &'static str,
    pub flavour: Flavour,
    pub needs: Level,
    pub broken_check: Option<BrokenCheck>,
    pub containers: Containers,
    /// The plugin of the reference whose second DEL fails, and its message.
    pub second_del: Option<(&'static str, &'static str)>,
}

impl ComparisonRow {
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
            second_del: None,
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

    pub fn alone(mut self) -> Self {
        self.containers = Containers::One;
        self
    }

    pub fn second_del(mut self, plugin: &'static str, says: &'static str) -> Self {
        self.second_del = Some((plugin, says));
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
