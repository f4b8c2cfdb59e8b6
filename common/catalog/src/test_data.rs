//! The configurations with which tests call a plugin.

use serde::Deserialize;
use serde_json::Value;

/// What tests need to call one plugin. Configurations lack `cniVersion`, `name`, `type` and `prevResult`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TestData {
    /// A configuration that works in a container without any interface but `lo`.
    pub small: Value,
    /// The same with every key that can be set there.
    pub rich: Value,
    /// A configuration that works on a network, without `ipam` for a plugin that asks an IPAM plugin.
    pub real: Value,
    /// The configuration whose ADD is made to fail at every system call, if it is not `real`.
    pub failing: Option<Value>,
    /// `CNI_ARGS` that it cannot do without.
    pub args: Option<String>,
    /// `CNI_IFNAME` in a container without any interface but `lo`, if it is not `eth0`.
    pub interface: Option<String>,
    /// Commands of a shell on the host that prepare it for `real`.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// Values of the right type that ADD refuses: a JSON pointer and the value.
    pub unusable: Vec<(String, Value)>,
    /// How to remove what the plugin made, so that CHECK must fail.
    pub damage: Option<Damage>,
}

/// A command that removes what the plugin made for the container `ctr1` with `real`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Damage {
    #[serde(rename = "in")]
    pub side: CommandSide,
    /// `HOST_END` stands for the host's end of the container's interface.
    pub command: String,
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommandSide {
    Host,
    Container,
}
