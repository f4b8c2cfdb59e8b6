//! One row of the catalog: a plugin and its keys.

use serde::Deserialize;

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
