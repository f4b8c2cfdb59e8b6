//! The keys of the plugin. Of `delegate` and `ipam`, only the keys that flannel sets are interpreted.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::json::Json;
use cni_core::request::Request;
use cni_model::state_file::StateFile;
use serde::Deserialize;

/// The type of the plugin.
pub const KIND: &str = "flannel";

/// The file to which flanneld writes the lease.
const SUBNET_FILE: &str = "/run/flannel/subnet.env";

/// The directory in which the reference keeps composed configurations.
const DATA_DIR: &str = "/var/lib/cni/flannel";

/// A JSON object, sorted by its keys.
pub type JsonObject = BTreeMap<String, Json>;

/// The configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The name of the network.
    pub network: String,
    /// The version as written; empty if it is missing.
    pub cni_version: String,
    /// The base of the delegate's configuration.
    pub delegate: JsonObject,
    /// The base of the delegate's `ipam`.
    pub ipam: JsonObject,
    /// `runtimeConfig`, which is passed to the delegate.
    pub runtime_config: Option<Json>,
    /// The path of the lease.
    pub subnet_file: String,
    /// The directory of the composed configurations.
    pub data_dir: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    cni_version: String,
    subnet_file: Option<String>,
    data_dir: Option<String>,
    delegate: JsonObject,
    ipam: JsonObject,
    runtime_config: Option<JsonObject>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DataDirKey {
    data_dir: Option<String>,
}

impl Config {
    /// Reads and checks every key.
    ///
    /// # Errors
    /// When a value is invalid.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { cni_version, subnet_file, data_dir, runtime_config, .. } = request.decode()?;
        let mut config = Self {
            network: request.network.to_string(),
            cni_version,
            delegate: merge_spellings(request.config(), "delegate"),
            ipam: merge_spellings(request.config(), "ipam"),
            runtime_config: runtime_config.map(|members| Json::Object(members.into_iter().collect())),
            subnet_file: subnet_file.unwrap_or_else(|| SUBNET_FILE.to_owned()),
            data_dir: data_dir.unwrap_or_else(|| DATA_DIR.to_owned()),
        };
        if config.delegate.get("type") == Some(&Json::Null) {
            config.delegate.remove("type");
        }
        config.verify()?;
        Ok(config)
    }

    /// The messages are the reference's, if it has one.
    fn verify(&self) -> Result<(), Error> {
        match self.delegate.get("type") {
            None => {}
            Some(Json::String(kind)) if kind.is_empty() => {
                return Err(fail!(InvalidConfig, "failed to delegate add: no plugin name provided"));
            }
            Some(Json::String(kind)) if is_own_name(kind) => {
                let text = "dictionary must not have the 'type'";
                return Err(fail!(InvalidConfig, "'delegate' {text} {kind:?}, which is this plugin"));
            }
            Some(Json::String(_)) => {}
            Some(other) => {
                let text = "'delegate' dictionary, if present, must have (string) 'type' field";
                return Err(fail!(InvalidConfig, "{text}", details: "it is {other}"));
            }
        }
        if let Some(key) = ["name", "ipam"].into_iter().find(|key| self.delegate.contains_key(*key)) {
            let text = format!("must not have '{key}' field, it'll be set by flannel");
            return Err(fail!(InvalidConfig, "'delegate' dictionary {text}"));
        }
        let checked = StateFile::new(&self.data_dir, "any").map(drop);
        checked.map_err(|error| fail!(InvalidConfig, "invalid dataDir", details: "{error}"))
    }
}

/// Whether a name is one under which this plugin is installed.
fn is_own_name(name: &str) -> bool {
    name.strip_prefix(KIND).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Merges the objects under all spellings of a key, as Go's decoder does with a map; `null` empties it.
fn merge_spellings(config: &Json, key: &str) -> JsonObject {
    let Json::Object(entries) = config else { return JsonObject::new() };
    let mut members = JsonObject::new();
    for (_, value) in entries.iter().filter(|(name, _)| name.eq_ignore_ascii_case(key)) {
        match value {
            Json::Object(given) => members.extend(given.iter().cloned()),
            Json::Null | Json::Bool(_) | Json::Integer(_) | Json::Float(_) | Json::String(_) | Json::Array(_) => {
                members.clear();
            }
        }
    }
    members
}

/// The directory of the composed configurations for DEL. An invalid key means the default.
pub fn data_dir_for_del(request: &Request) -> String {
    let DataDirKey { data_dir } = request.decode().unwrap_or_else(|error| {
        log::warn!("dataDir is invalid, so {DATA_DIR} is used: {}", error.in_full());
        DataDirKey::default()
    });
    let given = data_dir.unwrap_or_else(|| DATA_DIR.to_owned());
    match StateFile::new(&given, "any") {
        Ok(_) => given,
        Err(error) => {
            log::warn!("dataDir is invalid, so {DATA_DIR} is used: {error}");
            DATA_DIR.to_owned()
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use cni_core::request::{Call, Environment};
    use cni_core::version::Version;

    /// A request with this configuration.
    pub fn request(config: &str) -> Request {
        let variables = [("CNI_CONTAINERID", "c1"), ("CNI_NETNS", "/n"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/")];
        let call = Call::parse("ADD", Environment::new(variables)).expect("a call");
        call.with_config(config.as_bytes().to_vec(), Version::ALL).expect("a request")
    }

    fn load(keys: &str) -> Result<Config, Error> {
        Config::load(&request(&format!(r#"{{"name":"n","type":"flannel",{keys}}}"#)))
    }

    #[test]
    fn keys_have_the_defaults_of_the_reference() {
        let config = load(r#""cniVersion":"1.0.0""#).expect("read");
        assert_eq!((config.network.as_str(), config.cni_version.as_str()), ("n", "1.0.0"));
        assert_eq!((config.subnet_file.as_str(), config.data_dir.as_str()), (SUBNET_FILE, DATA_DIR));
        assert_eq!((config.delegate.len(), config.ipam.len(), config.runtime_config), (0, 0, None));
        assert_eq!(load(r#""subnetFile":"""#).expect("read").subnet_file, "");
        assert_eq!(load(r#""delegate":{"type":null}"#).expect("read").delegate.len(), 0);
        assert_eq!(load(r#""delegate":null,"ipam":null"#).expect("read").delegate.len(), 0);
    }

    #[test]
    fn spellings_of_delegate_are_merged() {
        let config = load(r#""Delegate":{"a":1,"b":2},"delegate":{"b":3,"B":4}"#).expect("read");
        let merged: Vec<_> = config.delegate.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(merged, ["B=4", "a=1", "b=3"]);
        assert!(load(r#""Delegate":{"a":1},"delegate":null"#).expect("read").delegate.is_empty());
    }

    #[test]
    fn del_finds_the_directory_whatever_else_is_wrong() {
        for (keys, directory) in [
            (r#""delegate":1,"dataDir":"/x""#, "/x"),
            (r#""dataDir":1"#, DATA_DIR),
            (r#""dataDir":"x""#, DATA_DIR),
            (r#""mtu":1"#, DATA_DIR),
        ] {
            let request = request(&format!(r#"{{"name":"n",{keys}}}"#));
            assert_eq!(data_dir_for_del(&request), directory, "{keys}");
        }
    }
}
