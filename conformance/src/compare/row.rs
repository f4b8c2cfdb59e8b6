//! One row of the table: a network, and its containers.

use serde_json::{Value, json};

use crate::{Flavour, PortMapping};

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
    /// Whether the plugins are also exchanged under running containers, and back.
    pub is_exchanged: bool,
}

impl ComparisonRow {
    /// A list of these plugins for network `net1`.
    pub fn new(name: &'static str, version: &str, plugins: Value) -> Self {
        Self {
            name,
            list: json!({"cniVersion": version, "name": "net1", "plugins": plugins}),
            before: Vec::new(),
            ports: [Vec::new(), Vec::new()],
            args: "",
            flavour: Flavour::Nft,
            is_exchanged: false,
        }
    }
}
