//! Reads files of libcni's cache.
//!
//! A file has the configuration of its network, the arguments of the runtime, and the result of ADD. The configuration is the
//! same for all attachments of a network.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni_core::names::{Attachment, ContainerId, IfName, NameError, NetworkName};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::result::CachedResult;
use super::{CacheError, Cached, KIND, PluginConfig, PublishedPort};

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
struct FileKeys {
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

impl CacheReader {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CacheError`], also for an incomplete file.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Cached, CacheError> {
        let keys = FileKeys::parse(bytes)?;
        let result = keys.result.as_ref().map(|result| serde_json::from_str(result.get()));
        let result = CachedResult(result.transpose().map_err(CacheError::Syntax)?.unwrap_or_default());
        let at = keys.attachment().map_err(CacheError::Name)?;
        let given = keys.netns.clone().filter(|path| !path.is_empty());
        let netns = given.or_else(|| result.sandbox_of(&keys.if_name).map(str::to_owned));
        let (ports, args, macs) = (keys.ports(), keys.args(), result.macs_of(&keys.if_name));
        let plugins = self.plugins(keys, &result)?;
        let is_published = plugins.iter().any(PluginConfig::publishes_ports);
        Ok(Cached {
            netns,
            reached: None,
            addresses: result.addresses(),
            macs,
            host_interfaces: result.host_interfaces(),
            ports: if is_published { ports } else { Vec::new() },
            args,
            plugins,
            at,
        })
    }

    fn plugins(&mut self, keys: FileKeys, result: &CachedResult) -> Result<Vec<PluginConfig>, CacheError> {
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

impl FileKeys {
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
