//! A file of libcni's cache: what it remembers of one attachment.
//!
//! libcni keeps the network configuration as it was read, the result of ADD, and the arguments. From these follow
//! the calls that it would make for CHECK, one for each plugin of the list.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::sync::Arc;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::request::{Call, Environment, Request};
use cni_flannel::{Flannel, delegate_of};
use cni_linux::host::LinuxHost;
use cni_plugin::run::Plugin;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub mod reader;

/// The key of the arguments for a plugin's capabilities.
const RUNTIME_CONFIG: &str = "runtimeConfig";

/// Where plugins are looked for if nothing is delegated.
const NO_FOLDER: &str = "/";

/// What libcni remembers of one attachment.
#[derive(Clone, Debug)]
pub struct Cached {
    pub at: Attachment,
    /// Where the container's namespace is, or was.
    pub netns: Option<String>,
    /// Another path to it, where that one leads nowhere.
    pub reached: Option<String>,
    /// The configurations of the list's plugins, in its order.
    pub plugins: Vec<PluginConfig>,
    /// The addresses that ADD has given, without the length of their prefix.
    pub addresses: Vec<IpAddr>,
    /// The link-layer addresses that its interface had in the container, according to the result.
    pub macs: Vec<String>,
    /// The interfaces of the host in the result, such as the bridge and its port.
    pub host_interfaces: Vec<String>,
    /// The ports of the host that lead to the container, as the runtime asked for them.
    pub ports: Vec<PublishedPort>,
    args: String,
}

/// A port of the host that leads to a container.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedPort {
    #[serde(default, alias = "HostPort")]
    pub host_port: u16,
    #[serde(default, alias = "ContainerPort")]
    pub container_port: u16,
    #[serde(default, alias = "Protocol")]
    pub protocol: String,
    #[serde(default, alias = "HostIP", rename = "hostIP")]
    pub host_ip: String,
}

/// The configuration of one plugin, as libcni would give it to the plugin for CHECK.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// The plugin.
    pub kind: String,
    /// The same for all attachments of a network.
    keys: Arc<Map<String, Value>>,
    /// The runtime's arguments for the plugin's capabilities, in place of the key of this name.
    runtime_config: Option<Map<String, Value>>,
    /// The result of ADD, the same for all plugins of the list.
    result: Option<Arc<RawValue>>,
}

impl Cached {
    /// Another attachment to the same network; only its name is known.
    pub fn of_another(&self, at: Attachment) -> Self {
        let mut plugins = self.plugins.clone();
        for config in &mut plugins {
            Arc::make_mut(&mut config.keys)
                .retain(|key, _| !["prevResult", RUNTIME_CONFIG, "args"].contains(&key.as_str()));
            (config.runtime_config, config.result) = (None, None);
        }
        Self::unremembered(at, plugins)
    }

    /// An attachment that no cache has, with the configurations of plugins.
    pub fn of_record(at: Attachment, configs: impl IntoIterator<Item = Value>) -> Self {
        let config = |config: Value| {
            let kind = config["type"].as_str().unwrap_or_default().to_owned();
            let mut keys = if let Value::Object(keys) = config { keys } else { Map::new() };
            let own = [("cniVersion", "1.0.0"), ("name", at.network.as_str())];
            keys.extend(own.map(|(key, value)| (key.to_owned(), Value::from(value))));
            PluginConfig::new(kind, keys)
        };
        let plugins = configs.into_iter().map(config).collect();
        Self::unremembered(at, plugins)
    }

    /// An attachment to a network with one plugin, which has these keys.
    #[cfg(test)]
    pub fn of_config(at: Attachment, kind: &'static str, mut keys: Value) -> Self {
        keys["type"] = kind.into();
        Self::of_record(at, [keys])
    }

    fn unremembered(at: Attachment, plugins: Vec<PluginConfig>) -> Self {
        Self {
            at,
            netns: None,
            reached: None,
            plugins,
            addresses: Vec::new(),
            macs: Vec::new(),
            host_interfaces: Vec::new(),
            ports: Vec::new(),
            args: "IgnoreUnknown=true".to_owned(),
        }
    }

    /// The attachment, with the plugin that `flannel` has called in place of it in its list, where that is known: by default `bridge`, by the
    /// configuration that flannel has kept.
    ///
    /// # Errors
    /// When that configuration cannot be read.
    pub fn resolved(&self) -> Result<Cow<'_, Self>, Error> {
        let delegates = |config: &PluginConfig| {
            cni_builtin::plugin(&config.kind).is_some_and(|plugin| plugin.kind() == Flannel.kind())
        };
        if !self.plugins.iter().any(delegates) {
            return Ok(Cow::Borrowed(self));
        }
        let mut resolved = self.clone();
        for config in resolved.plugins.iter_mut().filter(|config| delegates(config)) {
            let request = self.question(config, &Flannel)?;
            if let Some(composed) = delegate_of(&request, &mut LinuxHost::new(&request))? {
                *config = config.delegate(&composed.text())?;
            }
        }
        Ok(Cow::Owned(resolved))
    }

    /// Whether the list has a plugin of this name.
    pub fn has_plugin(&self, name: &str) -> bool {
        self.plugins.iter().any(|config| config.kind == name || config.ipam() == Some(name))
    }

    /// The ports of the host that portmap publishes for it. It ignores a mapping of port 0.
    pub fn published(&self) -> impl Iterator<Item = &PublishedPort> {
        self.ports.iter().filter(|port| port.host_port != 0 && self.has_portmap())
    }

    /// Whether portmap publishes its ports.
    pub fn has_portmap(&self) -> bool {
        self.plugins.iter().any(|plugin| plugin.kind == "portmap")
    }

    /// The plugins of the list that this binary does not contain.
    pub fn plugins_of_others(&self) -> impl Iterator<Item = &str> {
        let kinds = self.plugins.iter().map(|config| config.kind.as_str());
        kinds.filter(|kind| cni_builtin::plugin(kind).is_none())
    }

    /// What a plugin gets for DEL when the namespace is gone: its environment and its input.
    pub fn deletion(&self, config: &PluginConfig, folders: &OsStr) -> (Vec<(&'static str, OsString)>, Vec<u8>) {
        let command = [("CNI_COMMAND", "DEL".into())];
        (command.into_iter().chain(self.environment("", folders)).collect(), config.input())
    }

    /// The environment of a call, without its command.
    fn environment(&self, netns: &str, folders: &OsStr) -> [(&'static str, OsString); 5] {
        [
            ("CNI_CONTAINERID", self.at.container.as_str().into()),
            ("CNI_IFNAME", self.at.ifname.as_str().into()),
            ("CNI_NETNS", netns.into()),
            ("CNI_ARGS", self.args.as_str().into()),
            ("CNI_PATH", folders.to_owned()),
        ]
    }

    /// The request for a plugin that is to remove its rules alone, and nothing that an IPAM plugin has given.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn request_without_ipam(&self, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        let mut config = config.clone();
        Arc::make_mut(&mut config.keys).retain(|key, _| !key.eq_ignore_ascii_case("ipam"));
        self.request(&config, plugin)
    }

    /// The request that a plugin would get.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn request(&self, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        self.request_of("ADD", config, plugin, NO_FOLDER)
    }

    /// Returns a request that asks about the network, without the container's namespace.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn question(&self, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        self.request_of("DEL", config, plugin, NO_FOLDER)
    }

    /// The request that a plugin would get for a command, with the folders in which it looks for other plugins.
    ///
    /// # Errors
    /// As [`Call::with_config`], also for a version without the command.
    pub fn request_of(
        &self,
        command: &str,
        config: &PluginConfig,
        plugin: &dyn Plugin,
        folders: &str,
    ) -> Result<Request, Error> {
        config.request(self.call_of(command, folders)?, plugin)
    }

    /// The call that every plugin of the list would get. Its command is ADD, which every version of the configuration allows.
    ///
    /// # Errors
    /// As [`Call::parse`].
    pub fn call(&self) -> Result<Call, Error> {
        self.call_of("ADD", NO_FOLDER)
    }

    fn call_of(&self, command: &str, folders: &str) -> Result<Call, Error> {
        let environment = self.environment(self.netns.as_deref().unwrap_or_default(), folders.as_ref());
        Call::parse(command, Environment::new(environment.map(|(name, value)| (name.into(), value))))
    }
}

impl PluginConfig {
    /// Without arguments of the runtime and without a result.
    fn new(kind: String, keys: Map<String, Value>) -> Self {
        Self { kind, keys: Arc::new(keys), runtime_config: None, result: None }
    }

    /// The configuration of another plugin that this one has called for the same result.
    ///
    /// # Errors
    /// When it is not an object with a type.
    pub fn delegate(&self, composed: &str) -> Result<Self, Error> {
        let mut keys: Map<String, Value> = serde_json::from_str(composed).map_err(|error| no_config(&error))?;
        let kind = keys.get("type").and_then(Value::as_str).ok_or_else(no_plugin)?.to_owned();
        if self.result.is_some() {
            keys.remove("prevResult");
        }
        let own = ["name", "cniVersion", "prevResult"].into_iter();
        keys.extend(own.filter_map(|key| Some((key.to_owned(), self.keys.get(key)?.clone()))));
        Ok(Self { result: self.result.clone(), ..Self::new(kind, keys) })
    }

    /// The request of a call with this configuration.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn request(&self, call: Call, plugin: &dyn Plugin) -> Result<Request, Error> {
        call.with_config(self.input(), plugin.versions())
    }

    /// What the plugin reads.
    fn input(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether it publishes the ports that the runtime asks for. Some runtimes ask in every network.
    fn publishes_ports(&self) -> bool {
        self.kind == "portmap" || self.runtime_config.as_ref().is_some_and(|given| given.contains_key("portMappings"))
    }

    /// Whether a key is `true`.
    pub fn is_set(&self, key: &str) -> bool {
        self.keys.get(key) == Some(&Value::Bool(true))
    }

    /// The IPAM plugin that it delegates to.
    pub fn ipam(&self) -> Option<&str> {
        self.keys.get("ipam")?.get("type")?.as_str()
    }

    /// The keys that decide which addresses it gives, as text.
    pub fn address_source(&self) -> String {
        let runtime_config = self.runtime_config.as_ref().or_else(|| self.keys.get(RUNTIME_CONFIG)?.as_object());
        let keys = [self.keys.get("ipam"), runtime_config.and_then(|keys| keys.get("ipRanges"))];
        keys.map(|key| key.map(Value::to_string).unwrap_or_default()).join(" ")
    }
}

fn no_config(error: &serde_json::Error) -> Error {
    fail!(Decoding, "its config is not a network configuration", details: "{error}")
}

/// The configuration has neither `plugins` nor a `type`.
fn no_plugin() -> Error {
    fail!(InvalidConfig, "its config names no plugin")
}

/// What the plugin reads.
impl Serialize for PluginConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.keys.iter().filter(|(key, _)| self.runtime_config.is_none() || *key != RUNTIME_CONFIG)
        {
            map.serialize_entry(key, value)?;
        }
        if let Some(arguments) = &self.runtime_config {
            map.serialize_entry(RUNTIME_CONFIG, arguments)?;
        }
        if let Some(result) = &self.result {
            map.serialize_entry("prevResult", result.as_ref())?;
        }
        map.end()
    }
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
