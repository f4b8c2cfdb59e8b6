//! A file of libcni's cache: what it remembers of one attachment.
//!
//! libcni keeps the network configuration as it was read, the result of ADD, and the arguments. From these follow
//! the calls that it would make for CHECK, one for each plugin of the list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni_core::error::{Code, Error, Failure};
use cni_core::names::{Attachment, ContainerId, IfName, NameError, NetworkName};
use cni_core::request::{Call, Environment, Request};
use cni_plugin::run::Plugin;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The kind of file that libcni writes. Very old releases wrote only the result.
const KIND: &str = "cniCacheV1";

/// The key of the arguments for a plugin's capabilities.
const RUNTIME_CONFIG: &str = "runtimeConfig";

/// Where plugins are looked for if nothing is delegated.
const NO_FOLDER: &str = "/";

/// A file that is not from libcni's cache, or incomplete.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// libcni may be writing it at this moment, or was stopped while it did.
    #[error("incomplete, or not JSON")]
    Syntax(#[source] serde_json::Error),
    #[error("not a file of kind {KIND}")]
    Kind,
    /// A value is missing, or has the wrong type.
    #[error("not as libcni writes it")]
    Shape(#[source] serde_json::Error),
    #[error("not as libcni writes it")]
    Name(#[source] NameError),
    #[error("its config is not base64")]
    Encoding(#[source] base64::DecodeError),
    #[error("its config is not a network configuration")]
    Config(#[source] serde_json::Error),
    /// The configuration has neither `plugins` nor a `type`.
    #[error("its config names no plugin")]
    NoPlugin,
}

impl Failure for CacheError {
    fn code(&self) -> Code {
        match self {
            Self::Syntax(_) | Self::Kind | Self::Shape(_) | Self::Encoding(_) | Self::Config(_) => Code::Decoding,
            Self::Name(source) => source.code(),
            Self::NoPlugin => Code::InvalidConfig,
        }
    }
}

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

/// Reads the files of many attachments. Those of one network share its configuration, so that a host with a thousand
/// containers has it in memory once.
#[derive(Debug, Default)]
pub struct CacheReader {
    lists: HashMap<ListSource, Arc<[ListedPlugin]>>,
}

/// What the configurations of a list's plugins follow from.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ListSource {
    /// In base64.
    config: String,
    network: String,
    version_in_result: Option<String>,
    has_result: bool,
}

/// A plugin of a list.
#[derive(Debug)]
struct ListedPlugin {
    kind: String,
    keys: Arc<Map<String, Value>>,
    capabilities: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    kind: String,
    container_id: String,
    config: String,
    if_name: String,
    network_name: String,
    /// Not written by releases before 1.1.
    netns: Option<String>,
    cni_args: Option<Vec<(String, String)>>,
    capability_args: Option<Map<String, Value>>,
    result: Option<Box<RawValue>>,
}

/// The result of ADD.
struct CachedResult(Value);

/// A list of plugins, or the configuration of a single one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkConfig {
    cni_version: Option<String>,
    plugins: Option<Vec<Map<String, Value>>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct Capabilities {
    #[serde(default)]
    capabilities: Option<BTreeMap<String, Option<bool>>>,
}

impl Cached {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CacheError`], also for an incomplete file.
    pub fn parse(bytes: &[u8]) -> Result<Self, CacheError> {
        CacheReader::default().parse(bytes)
    }

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

    /// An attachment to a network whose configuration is unknown, with the plugins that need only names to find what they made.
    pub fn of_record(at: Attachment, kinds: impl IntoIterator<Item = &'static str>) -> Self {
        let config = |kind: &str| {
            let keys = [("cniVersion", "1.0.0"), ("name", at.network.as_str()), ("type", kind)];
            let keys = keys.map(|(key, value)| (key.to_owned(), Value::from(value)));
            PluginConfig::new(kind.to_owned(), keys.into_iter().collect())
        };
        let plugins = kinds.into_iter().map(config).collect();
        Self::unremembered(at, plugins)
    }

    /// An attachment to a network with one plugin, which has these keys.
    #[cfg(test)]
    pub fn of_config(at: Attachment, kind: &'static str, keys: Value) -> Self {
        let mut cached = Self::of_record(at, [kind]);
        if let Value::Object(keys) = keys {
            cached.plugins.iter_mut().for_each(|config| Arc::make_mut(&mut config.keys).extend(keys.clone()));
        }
        cached
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

    /// Whether the list has a plugin of this name.
    pub fn has_plugin(&self, name: &str) -> bool {
        self.plugins.iter().any(|config| config.kind == name || config.ipam() == Some(name))
    }

    /// What a plugin gets for DEL when the namespace is gone: its environment and its input.
    pub fn deletion(&self, config: &PluginConfig, folders: &OsStr) -> ([(&'static str, OsString); 6], Vec<u8>) {
        let environment = [
            ("CNI_COMMAND", "DEL".into()),
            ("CNI_CONTAINERID", self.at.container.as_str().into()),
            ("CNI_IFNAME", self.at.ifname.as_str().into()),
            ("CNI_NETNS", OsString::new()),
            ("CNI_ARGS", self.args.as_str().into()),
            ("CNI_PATH", folders.to_owned()),
        ];
        (environment, config.input())
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

    /// The request that a plugin would get. Its command is ADD, which every version of the configuration allows.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn request(&self, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        self.request_of("ADD", config, plugin, NO_FOLDER)
    }

    /// The request that a plugin would get for CHECK, with the folders in which it looks for the IPAM plugin.
    ///
    /// # Errors
    /// As [`Call::with_config`], also for a version without CHECK.
    pub fn check(&self, config: &PluginConfig, plugin: &dyn Plugin, folders: &str) -> Result<Request, Error> {
        self.request_of("CHECK", config, plugin, folders)
    }

    /// Returns a request that asks about the network, without the container's namespace.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn question(&self, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        self.request_of("DEL", config, plugin, NO_FOLDER)
    }

    fn request_of(
        &self,
        command: &str,
        config: &PluginConfig,
        plugin: &dyn Plugin,
        folders: &str,
    ) -> Result<Request, Error> {
        let environment = [
            ("CNI_CONTAINERID", self.at.container.as_str()),
            ("CNI_IFNAME", self.at.ifname.as_str()),
            ("CNI_NETNS", self.netns.as_deref().unwrap_or_default()),
            ("CNI_ARGS", &self.args),
            ("CNI_PATH", folders),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Call::parse(command, Environment::new(environment))?.with_config(config.input(), plugin.versions())
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
    /// [`CacheError`], when it is not an object with a type.
    pub fn delegate(&self, composed: &str) -> Result<Self, CacheError> {
        let mut keys: Map<String, Value> = serde_json::from_str(composed).map_err(CacheError::Config)?;
        let kind = keys.get("type").and_then(Value::as_str).ok_or(CacheError::NoPlugin)?.to_owned();
        if self.result.is_some() {
            keys.remove("prevResult");
        }
        let own = ["name", "cniVersion", "prevResult"].into_iter();
        keys.extend(own.filter_map(|key| Some((key.to_owned(), self.keys.get(key)?.clone()))));
        Ok(Self { result: self.result.clone(), ..Self::new(kind, keys) })
    }

    /// What the plugin reads.
    fn input(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
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

impl CacheReader {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CacheError`], also for an incomplete file.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Cached, CacheError> {
        let keys = Keys::parse(bytes)?;
        let result = keys.result.as_ref().map(|result| serde_json::from_str(result.get()));
        let result = CachedResult(result.transpose().map_err(CacheError::Syntax)?.unwrap_or_default());
        let at = keys.attachment().map_err(CacheError::Name)?;
        let given = keys.netns.clone().filter(|path| !path.is_empty());
        let netns = given.or_else(|| result.sandbox_of(&keys.if_name).map(str::to_owned));
        Ok(Cached {
            netns,
            reached: None,
            addresses: result.addresses(),
            macs: result.macs_of(&keys.if_name),
            host_interfaces: result.host_interfaces(),
            ports: keys.ports(),
            args: keys.args(),
            plugins: self.plugins(keys, &result)?,
            at,
        })
    }

    fn plugins(&mut self, keys: Keys, result: &CachedResult) -> Result<Vec<PluginConfig>, CacheError> {
        let source = ListSource {
            config: keys.config,
            network: keys.network_name,
            version_in_result: result.version().map(str::to_owned),
            has_result: keys.result.is_some(),
        };
        let listed = match self.lists.get(&source) {
            Some(listed) => Arc::clone(listed),
            None => {
                let listed = source.plugins()?;
                Arc::clone(self.lists.entry(source).or_insert(listed))
            }
        };
        let result = keys.result.map(Arc::from);
        let configured = |plugin: &ListedPlugin| PluginConfig {
            kind: plugin.kind.clone(),
            keys: Arc::clone(&plugin.keys),
            runtime_config: plugin.runtime_config(keys.capability_args.as_ref()),
            result: result.clone(),
        };
        Ok(listed.iter().map(configured).collect())
    }
}

impl ListSource {
    /// The version is the result's: a list may name several, from which the runtime chooses.
    fn plugins(&self) -> Result<Arc<[ListedPlugin]>, CacheError> {
        let config = STANDARD.decode(&self.config).map_err(CacheError::Encoding)?;
        let config: NetworkConfig = serde_json::from_slice(&config).map_err(CacheError::Config)?;
        let NetworkConfig { cni_version, plugins, others } = config;
        let version = self.version_in_result.clone().or(cni_version).unwrap_or_default();
        let plugins = plugins.unwrap_or_else(|| vec![others]);
        let listed = |mut plugin: Map<String, Value>| {
            let kind = plugin.get("type").and_then(Value::as_str).ok_or(CacheError::NoPlugin)?.to_owned();
            let Capabilities { capabilities } = Deserialize::deserialize(&plugin).map_err(CacheError::Config)?;
            plugin.insert("name".to_owned(), self.network.clone().into());
            plugin.insert("cniVersion".to_owned(), version.clone().into());
            if self.has_result {
                plugin.remove("prevResult");
            }
            let capabilities = capabilities.into_iter().flatten().filter(|(_, is_used)| *is_used == Some(true));
            let capabilities = capabilities.map(|(name, _)| name).collect();
            Ok(ListedPlugin { kind, keys: Arc::new(plugin), capabilities })
        };
        plugins.into_iter().map(listed).collect()
    }
}

impl ListedPlugin {
    /// The arguments for the capabilities that it declares. If there are none, its `runtimeConfig` stays as it is.
    fn runtime_config(&self, args: Option<&Map<String, Value>>) -> Option<Map<String, Value>> {
        let args = args.into_iter().flatten().filter(|(name, _)| self.capabilities.contains(*name));
        let chosen: Map<String, Value> = args.map(|(name, value)| (name.clone(), value.clone())).collect();
        Some(chosen).filter(|chosen| !chosen.is_empty())
    }
}

impl Keys {
    /// What is not as libcni writes it is read once more, to tell why.
    fn parse(bytes: &[u8]) -> Result<Self, CacheError> {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(keys) if keys.kind == KIND => Ok(keys),
            Ok(_) | Err(_) => {
                let file: Value = serde_json::from_slice(bytes).map_err(CacheError::Syntax)?;
                if file.get("kind").and_then(Value::as_str) != Some(KIND) {
                    return Err(CacheError::Kind);
                }
                serde_json::from_value(file).map_err(CacheError::Shape)
            }
        }
    }

    fn attachment(&self) -> Result<Attachment, NameError> {
        Ok(Attachment {
            network: NetworkName::parse(&self.network_name)?,
            container: ContainerId::parse(&self.container_id)?,
            ifname: IfName::parse(&self.if_name)?,
        })
    }

    /// Entries that make no sense are the plugin's to refuse.
    fn ports(&self) -> Vec<PublishedPort> {
        let given = self.capability_args.as_ref().and_then(|args| args.get("portMappings")?.as_array());
        given.into_iter().flatten().filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
    }

    fn args(&self) -> String {
        let pairs = self.cni_args.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(";")
    }
}

impl CachedResult {
    fn interfaces(&self) -> impl Iterator<Item = &Value> {
        self.0.get("interfaces").and_then(Value::as_array).into_iter().flatten()
    }

    /// The namespace of an interface.
    fn sandbox_of(&self, ifname: &str) -> Option<&str> {
        let named = self.interfaces().filter(|one| text_of(one, "name") == ifname);
        named.map(|one| text_of(one, "sandbox")).find(|sandbox| !sandbox.is_empty())
    }

    /// The link-layer addresses of an interface in the container; an empty one where the result does not tell.
    fn macs_of(&self, ifname: &str) -> Vec<String> {
        let own = self.interfaces().filter(|one| text_of(one, "name") == ifname);
        own.filter(|one| !text_of(one, "sandbox").is_empty()).map(|one| text_of(one, "mac").to_owned()).collect()
    }

    /// The interfaces that are in no sandbox.
    fn host_interfaces(&self) -> Vec<String> {
        let outside = self.interfaces().filter(|one| text_of(one, "sandbox").is_empty());
        outside.map(|one| text_of(one, "name").to_owned()).filter(|name| !name.is_empty()).collect()
    }

    /// The addresses, whatever its version.
    fn addresses(&self) -> Vec<IpAddr> {
        let listed = self.0.get("ips").and_then(Value::as_array).into_iter().flatten();
        let listed = listed.filter_map(|ip| ip.get("address"));
        let ancient = ["ip4", "ip6"].into_iter().filter_map(|family| self.0.get(family)?.get("ip"));
        let texts = listed.chain(ancient).filter_map(Value::as_str);
        texts.filter_map(|text| text.split('/').next()?.parse().ok()).collect()
    }

    fn version(&self) -> Option<&str> {
        Some(text_of(&self.0, "cniVersion")).filter(|version| !version.is_empty())
    }
}

fn text_of<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
