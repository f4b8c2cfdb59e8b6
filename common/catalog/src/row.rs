//! One row of the catalog: a plugin and its keys, and the configurations with which tests call it.

use serde::Deserialize;
use serde_json::Value;

/// One plugin.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Entry {
    /// The `type` in configurations, and the name of the binary.
    #[serde(rename = "type")]
    pub name: String,
    /// What it does, in one phrase.
    pub does: String,
    pub kind: PluginKind,
    /// The oldest version of the specification that it takes.
    #[serde(default = "first_version")]
    pub oldest_version: String,
    /// The release of the plugin that it replaces, if that is not one of the CNI project.
    pub reference_level: Option<String>,
    /// The kind of link that the kernel must be able to make.
    pub kernel_link: Option<String>,
    /// The keys of `CNI_ARGS` that it reads.
    #[serde(default)]
    pub args: Vec<String>,
    /// The keys of its configuration.
    pub keys: Vec<Key>,
    /// Keys that exclude each other.
    #[serde(default)]
    pub exclusive: Vec<Vec<String>>,
    /// The capability without which it does nothing.
    pub needs_capability: Option<String>,
}

fn first_version() -> String {
    "0.1.0".to_owned()
}

/// The place of a plugin in a configuration list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PluginKind {
    /// It sets up `lo`, which every container has.
    Loopback,
    /// It makes an interface, and may ask an IPAM plugin for addresses.
    Interface,
    /// It works on what the plugins before it have made.
    Chained,
    /// It assigns addresses for other plugins.
    Ipam,
}

/// One key of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The way to the key: names joined by dots, `[]` for the elements of a list.
    pub key: String,
    #[serde(rename = "type")]
    pub value: ValueType,
    /// The form that a string must have.
    pub format: Option<Format>,
    /// The only values.
    pub values: Option<Vec<String>>,
    /// The smallest number.
    pub min: Option<i64>,
    /// The largest number.
    pub max: Option<i64>,
    /// Whether the object around it is unusable without it.
    #[serde(default)]
    pub required: bool,
    /// The type of all values of an object with free keys.
    pub elements: Option<ValueType>,
    /// The capability by which the runtime sets it.
    pub capability: Option<String>,
}

/// The JSON type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueType {
    String,
    Boolean,
    Integer,
    List,
    Object,
    /// An object with `nameservers`, `domain`, `search` and `options`.
    Dns,
}

/// The form of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Format {
    /// An IP address.
    Address,
    /// An IP address with a prefix length.
    AddressWithPrefix,
    /// A network without host bits.
    Network,
    /// The same; in IPv6, host bits are ignored. The example of the reference's page on static has some.
    Route,
    /// A network without host bits that has room for containers.
    Subnet,
    /// A unicast MAC address.
    Mac,
    /// The name of an interface.
    Interface,
    /// The name of a chain of iptables.
    Chain,
    /// A path that begins with `/`.
    AbsolutePath,
    /// The name of a plugin.
    Plugin,
}

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
