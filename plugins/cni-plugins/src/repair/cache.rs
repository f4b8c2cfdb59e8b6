//! A file of libcni's cache: what it remembers of one attachment.
//!
//! libcni keeps the network configuration as it was read, the result of ADD, and the arguments. From these follow
//! the calls that it would make for CHECK, one for each plugin of the list.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni_core::error::{Code, Error, Failure};
use cni_core::names::{Attachment, ContainerId, IfName, NameError, NetworkName};
use cni_core::request::{Call, Environment, Request};
use cni_plugin::run::Plugin;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The kind of file that libcni writes. Very old releases wrote only the result.
const KIND: &str = "cniCacheV1";

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
#[derive(Clone, Debug, PartialEq)]
pub struct Cached {
    pub at: Attachment,
    /// Where the container's namespace is, or was.
    pub netns: Option<String>,
    /// The configurations of the list's plugins, in its order.
    pub plugins: Vec<PluginConfig>,
    args: String,
}

/// The configuration of one plugin, as libcni would give it to the plugin for CHECK.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    /// The plugin.
    pub kind: String,
    keys: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    container_id: String,
    config: String,
    if_name: String,
    network_name: String,
    /// Not written by releases before 1.1.
    netns: Option<String>,
    cni_args: Option<Vec<(String, String)>>,
    capability_args: Option<Map<String, Value>>,
    result: Option<Value>,
}

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
        let file: Value = serde_json::from_slice(bytes).map_err(CacheError::Syntax)?;
        if file.get("kind").and_then(Value::as_str) != Some(KIND) {
            return Err(CacheError::Kind);
        }
        let keys: Keys = serde_json::from_value(file).map_err(CacheError::Shape)?;
        let at = keys.attachment().map_err(CacheError::Name)?;
        let config = STANDARD.decode(&keys.config).map_err(CacheError::Encoding)?;
        let config: NetworkConfig = serde_json::from_slice(&config).map_err(CacheError::Config)?;
        let given = keys.netns.clone().filter(|path| !path.is_empty());
        let netns = given.or_else(|| keys.sandbox_in_result().map(str::to_owned));
        Ok(Self { plugins: plugin_configs(config, &keys)?, netns, args: keys.args(), at })
    }

    /// The request for a plugin that is to remove its rules alone, and nothing that an IPAM plugin has given.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn request_without_ipam(&self, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        let mut config = config.clone();
        config.keys.retain(|key, _| !key.eq_ignore_ascii_case("ipam"));
        self.request(&config, plugin)
    }

    /// The request that a plugin would get. Its command is ADD, which every version of the configuration allows.
    ///
    /// # Errors
    /// As [`Call::with_config`].
    pub fn request(&self, config: &PluginConfig, plugin: &dyn Plugin) -> Result<Request, Error> {
        let environment = [
            ("CNI_CONTAINERID", self.at.container.as_str()),
            ("CNI_IFNAME", self.at.ifname.as_str()),
            ("CNI_NETNS", self.netns.as_deref().unwrap_or_default()),
            ("CNI_ARGS", &self.args),
            // Nothing is delegated, so no plugin is looked for.
            ("CNI_PATH", "/"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let stdin = Value::Object(config.keys.clone()).to_string().into_bytes();
        Call::parse("ADD", Environment::new(environment))?.with_config(stdin, plugin.versions())
    }
}

impl Keys {
    fn attachment(&self) -> Result<Attachment, NameError> {
        Ok(Attachment {
            network: NetworkName::parse(&self.network_name)?,
            container: ContainerId::parse(&self.container_id)?,
            ifname: IfName::parse(&self.if_name)?,
        })
    }

    /// The namespace of the interface, according to the result.
    fn sandbox_in_result(&self) -> Option<&str> {
        let interfaces = self.result.as_ref()?.get("interfaces")?.as_array()?;
        let named = interfaces.iter().filter(|one| one.get("name").and_then(Value::as_str) == Some(&self.if_name));
        named.filter_map(|one| one.get("sandbox")?.as_str()).find(|sandbox| !sandbox.is_empty())
    }

    fn version_in_result(&self) -> Option<&str> {
        self.result.as_ref()?.get("cniVersion")?.as_str().filter(|version| !version.is_empty())
    }

    fn args(&self) -> String {
        let pairs = self.cni_args.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(";")
    }
}

/// The version is the result's: a list may name several, from which the runtime chooses.
fn plugin_configs(config: NetworkConfig, keys: &Keys) -> Result<Vec<PluginConfig>, CacheError> {
    let NetworkConfig { cni_version, plugins, others } = config;
    let version = keys.version_in_result().map(str::to_owned).or(cni_version).unwrap_or_default();
    let plugins = plugins.unwrap_or_else(|| vec![others]);
    let filled = |mut plugin: Map<String, Value>| {
        let kind = plugin.get("type").and_then(Value::as_str).ok_or(CacheError::NoPlugin)?.to_owned();
        let runtime_config = runtime_config(&plugin, keys.capability_args.as_ref())?;
        plugin.insert("name".to_owned(), keys.network_name.clone().into());
        plugin.insert("cniVersion".to_owned(), version.clone().into());
        plugin.extend(runtime_config.map(|runtime| ("runtimeConfig".to_owned(), Value::Object(runtime))));
        plugin.extend(keys.result.clone().map(|result| ("prevResult".to_owned(), result)));
        Ok(PluginConfig { kind, keys: plugin })
    };
    plugins.into_iter().map(filled).collect()
}

/// The arguments for the capabilities that a plugin declares. If there are none, its `runtimeConfig` stays as it is.
fn runtime_config(
    plugin: &Map<String, Value>,
    args: Option<&Map<String, Value>>,
) -> Result<Option<Map<String, Value>>, CacheError> {
    let Capabilities { capabilities } = Deserialize::deserialize(plugin).map_err(CacheError::Config)?;
    let capabilities = capabilities.unwrap_or_default();
    let has = |name: &str| capabilities.get(name) == Some(&Some(true));
    let args = args.into_iter().flatten().filter(|(name, _)| has(name));
    let chosen: Map<String, Value> = args.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(Some(chosen).filter(|chosen| !chosen.is_empty()))
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
