//! Reads files of libcni's cache.
//!
//! A file has the configuration of its network, the arguments of the runtime, and the result of ADD. The configuration is the
//! same for all attachments of a network.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Cached, PluginConfig, PublishedPort, no_config, no_plugin};

/// The kind of file that libcni writes. Very old releases wrote only the result.
const KIND: &str = "cniCacheV1";

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
    /// When it is not libcni's, also for an incomplete file.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Cached, Error> {
        let keys = FileKeys::parse(bytes)?;
        let result = keys.result.as_ref().map(|result| serde_json::from_str(result.get()));
        let result = CachedResult(result.transpose().map_err(|error| incomplete(&error))?.unwrap_or_default());
        let at = keys.attachment()?;
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

    fn plugins(&mut self, keys: FileKeys, result: &CachedResult) -> Result<Vec<PluginConfig>, Error> {
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
    fn plugins(&self) -> Result<Arc<[ListedPlugin]>, Error> {
        let config = STANDARD.decode(&self.config);
        let config = config.map_err(|error| fail!(Decoding, "its config is not base64", details: "{error}"))?;
        let config: NetworkConfig = serde_json::from_slice(&config).map_err(|error| no_config(&error))?;
        let NetworkConfig { cni_version, plugins, others } = config;
        let version = self.version_in_result.clone().or(cni_version).unwrap_or_default();
        let plugins = plugins.unwrap_or_else(|| vec![others]);
        let listed = |mut plugin: Map<String, Value>| {
            let kind = plugin.get("type").and_then(Value::as_str).ok_or_else(no_plugin)?.to_owned();
            let Capabilities { capabilities } = Deserialize::deserialize(&plugin).map_err(|error| no_config(&error))?;
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
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(keys) if keys.kind == KIND => Ok(keys),
            Ok(_) | Err(_) => {
                let file: Value = serde_json::from_slice(bytes).map_err(|error| incomplete(&error))?;
                if file.get("kind").and_then(Value::as_str) != Some(KIND) {
                    return Err(fail!(Decoding, "not a file of kind {KIND}"));
                }
                serde_json::from_value(file)
                    .map_err(|error| fail!(Decoding, "not as libcni writes it", details: "{error}"))
            }
        }
    }

    fn attachment(&self) -> Result<Attachment, Error> {
        let refused =
            |error: Error| Error::stated(error.code(), "not as libcni writes it".to_owned(), error.to_string());
        Ok(Attachment {
            network: NetworkName::parse(&self.network_name).map_err(refused)?,
            container: ContainerId::parse(&self.container_id).map_err(refused)?,
            ifname: IfName::parse(&self.if_name).map_err(refused)?,
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

/// The result of ADD, as libcni keeps it, whatever its version.
struct CachedResult(Value);

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
        let of_container = own.filter(|one| !text_of(one, "sandbox").is_empty()).map(|one| text_of(one, "mac"));
        // tuning of the reference writes them as the configuration spells them.
        of_container.map(|mac| mac.parse().map_or_else(|_| mac.to_owned(), |mac: Mac| mac.to_string())).collect()
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

/// libcni may be writing the file at this moment, or was stopped while it did.
fn incomplete(error: &serde_json::Error) -> Error {
    fail!(Decoding, "incomplete, or not JSON", details: "{error}")
}

fn text_of<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_interfaces_are_spelled_as_those_of_the_kernel() {
        let one = |mac: &str| json!({"name": "eth0", "sandbox": "/run/netns/a", "mac": mac});
        let result = CachedResult(json!({"interfaces": [one("C2-11-22-33-44-5A"), one(""), one("0200.0000.0009")]}));
        assert_eq!(result.macs_of("eth0"), ["c2:11:22:33:44:5a", "", "02:00:00:00:00:09"]);
    }
}
