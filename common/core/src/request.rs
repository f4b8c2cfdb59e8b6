//! One call of the runtime: environment and standard input, checked in the order of the reference.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Error;
use crate::fail;
use crate::json::{Json, JsonError};
use crate::names::{Attachment, ContainerId, IfName, NetworkName};
use crate::result::CniResult;
use crate::valid::ValidAttachments;
use crate::version::Version;

/// The command of the runtime: `CNI_COMMAND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Add a container to a network.
    Add,
    /// Remove a container from a network.
    Del,
    /// Check that a container's networking is as it was made.
    Check,
    /// Remove what belongs to no valid attachment.
    Gc,
    /// Say whether the plugin is ready for ADD.
    Status,
}

impl Command {
    /// The command as it is written in the environment.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status].into_iter().find(|command| command.as_str() == text)
    }

    /// Which variables the command needs, in the order in which missing ones are listed.
    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
            Self::Gc | Self::Status => &["CNI_PATH"],
        }
    }
}

/// The environment of the process: its variables whose names begin with `CNI_`. One with an empty value counts as unset.
#[derive(Clone, Debug, Default)]
pub struct Environment(Arc<BTreeMap<String, Value>>);

/// The value of a variable. In its text, bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug)]
struct Value {
    text: String,
    bytes: OsString,
}

impl Environment {
    /// Takes the variables of the process that concern it.
    pub fn new<T: Into<OsString>>(variables: impl IntoIterator<Item = (T, T)>) -> Self {
        let text = |bytes: OsString| bytes.into_string().unwrap_or_else(|bytes| bytes.to_string_lossy().into_owned());
        let variable = |(name, bytes): (T, T)| {
            let (name, bytes) = (name.into(), bytes.into());
            name.as_encoded_bytes()
                .starts_with(b"CNI_")
                .then(|| (text(name), Value { text: text(bytes.clone()), bytes }))
        };
        Self(Arc::new(variables.into_iter().filter_map(variable).collect()))
    }

    /// The value of a variable, if it has one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.text.as_str()).filter(|value| !value.is_empty())
    }
}

/// The part of the environment that the reference reads before standard input.
#[derive(Clone, Debug)]
pub struct Call {
    /// The command, or the text that is not a command.
    command: Result<Command, String>,
    attachment: Option<(ContainerId, IfName)>,
    environment: Environment,
}

impl Call {
    /// Reads the environment of a call whose `CNI_COMMAND` is `command`.
    ///
    /// # Errors
    /// A name that breaks its rules is reported at once; missing variables are reported together. An
    /// unknown command needs no variables: it is reported after the configuration.
    pub fn parse(command: &str, environment: Environment) -> Result<Self, Error> {
        let Some(command) = Command::parse(command) else {
            return Ok(Self { command: Err(command.to_owned()), attachment: None, environment });
        };
        let required = command.required();
        let value = |name: &'static str| environment.get(name).filter(|_| required.contains(&name));
        let container = value("CNI_CONTAINERID").map(ContainerId::parse).transpose()?;
        let ifname = value("CNI_IFNAME").map(IfName::parse).transpose()?;
        let names: Vec<_> = required.iter().copied().filter(|name| environment.get(name).is_none()).collect();
        if !names.is_empty() {
            return Err(missing(&names));
        }
        Ok(Self { command: Ok(command), attachment: container.zip(ifname), environment })
    }

    /// Adds the configuration from standard input, and checks that its version allows the command.
    ///
    /// # Errors
    /// In this order: JSON, the network name, the command, the version.
    pub fn with_config(self, stdin: Vec<u8>, supported: &[Version]) -> Result<Request, Error> {
        let no_config = |problem: JsonError| fail!(Decoding, "error unmarshall network config: {problem}");
        let no_version = |problem: JsonError| fail!(Decoding, "decoding version from network config: {problem}");
        let config = Json::parse(&stdin).map_err(no_config)?;
        let Name { name } = config.decode().map_err(no_config)?;
        let network = NetworkName::parse(&name)?;
        let command = self.command.map_err(|command| fail!(InvalidEnvironment, "unknown CNI_COMMAND: {command}"))?;
        let VersionKey { cni_version } = config.decode().map_err(no_version)?;
        let version = gate(command, released(&cni_version), supported)?;
        let (ids, environment, config, stdin) = (self.attachment, self.environment, config.into(), stdin.into());
        Ok(Request { command, network, ids, version, config, stdin, environment })
    }
}

fn missing(names: &[&str]) -> Error {
    let names = names.join(",");
    fail!(InvalidEnvironment, "required env variables [{names}] missing")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VersionKey {
    #[serde(rename = "cniVersion")]
    cni_version: String,
}

/// The version of a configuration, even if the call is refused; the latest if no release has it.
pub fn version_of(stdin: &[u8]) -> Version {
    let key: Option<VersionKey> = Json::parse(stdin).ok().and_then(|config| config.decode().ok());
    key.and_then(|key| Version::parse(released(&key.cni_version))).unwrap_or(Version::LATEST)
}

/// A configuration without a version is of the first one.
fn released(version: &str) -> &str {
    if version.is_empty() { "0.1.0" } else { version }
}

fn gate(command: Command, text: &str, supported: &[Version]) -> Result<Version, Error> {
    match command {
        Command::Add | Command::Del => Version::require(text, supported),
        Command::Check => Version::require_since(text, Version::V0_4_0, command.as_str(), supported),
        Command::Gc | Command::Status => Version::require_since(text, Version::V1_1_0, command.as_str(), supported),
    }
}

/// A valid call: what to do, to which attachment, under which configuration. A clone shares the texts.
#[derive(Clone, Debug)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// The network.
    pub network: NetworkName,
    /// The version of the configuration, in which the result is printed.
    pub version: Version,
    ids: Option<(ContainerId, IfName)>,
    config: Arc<Json>,
    stdin: Arc<Vec<u8>>,
    environment: Environment,
}

impl Request {
    /// The attachment that ADD, DEL and CHECK work on.
    ///
    /// # Errors
    /// For GC and STATUS, which work on none.
    pub fn attachment(&self) -> Result<Attachment, Error> {
        let ids = self.ids.clone();
        let (container, ifname) = ids.ok_or_else(|| missing(&["CNI_CONTAINERID", "CNI_IFNAME"]))?;
        Ok(Attachment { network: self.network.clone(), container, ifname })
    }

    /// `CNI_NETNS` as given, if it is.
    pub fn netns(&self) -> Option<&str> {
        self.environment.get("CNI_NETNS")
    }

    /// The same call with another configuration, as a plugin makes it that delegates to another one. Which plugin that is, and
    /// so which versions it supports, is not known: every version is accepted.
    pub fn with_config(&self, config: Vec<u8>) -> Result<Self, Error> {
        let call =
            Call { command: Ok(self.command), attachment: self.ids.clone(), environment: self.environment.clone() };
        call.with_config(config, Version::ALL)
    }

    /// The same request for a network of another name.
    pub fn with_network(&self, network: &NetworkName) -> Result<Self, Error> {
        let mut config = self.config().clone();
        if let Json::Object(entries) = &mut config {
            entries.retain(|(key, _)| !key.eq_ignore_ascii_case("name"));
            entries.push(("name".to_owned(), Json::String(network.to_string())));
        }
        self.with_config(config.to_string().into_bytes())
    }

    /// The same request without `CNI_NETNS`, as a runtime makes it that has lost the namespace.
    #[must_use]
    pub fn without_netns(&self) -> Self {
        let mut request = self.clone();
        Arc::make_mut(&mut request.environment.0).remove("CNI_NETNS");
        request
    }

    /// The same request with this `CNI_NETNS`.
    #[must_use]
    pub fn with_netns(&self, path: &str) -> Self {
        let mut request = self.clone();
        let value = Value { text: path.to_owned(), bytes: path.into() };
        Arc::make_mut(&mut request.environment.0).insert("CNI_NETNS".to_owned(), value);
        request
    }

    /// Whether `CNI_NETNS` may be the namespace of the plugin: `CNI_NETNS_OVERRIDE` is `1` or `true`.
    pub fn netns_override(&self) -> bool {
        self.environment
            .get("CNI_NETNS_OVERRIDE")
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// `CNI_PATH` as given.
    pub fn path(&self) -> &OsStr {
        self.environment.0.get("CNI_PATH").map(|value| value.bytes.as_os_str()).unwrap_or_default()
    }

    /// The variables of the call, under their names.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        self.environment.0.iter().map(|(name, value)| (name.as_str(), value.bytes.as_os_str()))
    }

    /// `CNI_ARGS`, split.
    pub fn args(&self) -> Result<CniArgs, Error> {
        self.args_with(&[])
    }

    /// The same, for a plugin that has keys of its own in it.
    pub fn args_with(&self, own: &[&'static str]) -> Result<CniArgs, Error> {
        CniArgs::parse(self.args_text(), own)
    }

    /// `CNI_ARGS` as given, for a plugin that reads them by rules of its own; empty if absent.
    pub fn args_text(&self) -> &str {
        self.environment.get("CNI_ARGS").unwrap_or_default()
    }

    /// The configuration as it was read, for a delegated plugin.
    pub fn stdin(&self) -> &[u8] {
        &self.stdin
    }

    /// The configuration as a document.
    pub fn config(&self) -> &Json {
        &self.config
    }

    /// Decodes the plugin's own keys.
    ///
    /// # Errors
    /// When a key has a value that the plugin cannot use; the details name the key.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        let refused = |problem: JsonError| fail!(Decoding, "failed to load netconf", details: "{problem}");
        self.config.decode().map_err(refused)
    }

    /// The result of the plugins before this one (for CHECK and DEL: of the whole list), if it is given.
    pub fn prev_result(&self) -> Result<Option<CniResult>, Error> {
        self.config.get("prevResult").map(|json| CniResult::parse_prev(json, self.version)).transpose()
    }

    /// The attachments that GC must keep; `None` if the runtime does not list them.
    pub fn valid_attachments(&self) -> Result<Option<ValidAttachments>, Error> {
        ValidAttachments::parse(&self.config)
    }
}

/// The arguments of `CNI_ARGS` that the conventions define. One string serves the plugin and its IPAM
/// delegate, so each accepts what is meant for the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CniArgs {
    /// `IP`: the address to assign.
    pub ip: Option<String>,
    /// `GATEWAY`: the gateway of that address.
    pub gateway: Option<String>,
    /// `MAC`: the link-layer address to set.
    pub mac: Option<String>,
    own: BTreeMap<&'static str, String>,
}

impl CniArgs {
    /// Splits `K=V;K=V` for a plugin with these keys of its own. Under `IgnoreUnknown` a value may hold further `=` signs; Nomad sends such
    /// values.
    ///
    /// # Errors
    /// A piece without `=`, or, unless ignored, with a second one, and unknown keys.
    pub fn parse(text: &str, own: &[&'static str]) -> Result<Self, Error> {
        let pairs: Vec<&str> = if text.is_empty() { Vec::new() } else { text.split(';').collect() };
        let ignore = pairs.iter().filter_map(|pair| pair.strip_prefix("IgnoreUnknown=")).next_back();
        let ignore = ignore.map_or(Ok(false), parse_bool)?;
        let mut args = Self::default();
        let mut unknown = Vec::new();
        for pair in pairs {
            let Some((key, value)) = pair.split_once('=').filter(|(_, value)| ignore || !value.contains('=')) else {
                return Err(fail!(InvalidEnvironment, "ARGS: invalid pair {pair:?}"));
            };
            match key {
                "IgnoreUnknown" => {}
                "IP" => args.ip = Some(value.to_owned()).filter(|value| !value.is_empty()),
                "GATEWAY" => args.gateway = Some(value.to_owned()).filter(|value| !value.is_empty()),
                "MAC" => args.mac = Some(value.to_owned()).filter(|value| !value.is_empty()),
                key => match own.iter().find(|own| **own == key) {
                    Some(_) if value.is_empty() => {}
                    Some(own) => drop(args.own.insert(own, value.to_owned())),
                    None => unknown.push(format!("{pair:?}")),
                },
            }
        }
        if unknown.is_empty() || ignore {
            return Ok(args);
        }
        let unknown = unknown.join(" ");
        Err(fail!(InvalidEnvironment, "ARGS: unknown args [{unknown}]"))
    }

    /// The value of one of the plugin's own keys; an empty value counts as none.
    pub fn own(&self, key: &str) -> Option<&str> {
        self.own.get(key).map(String::as_str)
    }
}

fn parse_bool(value: &str) -> Result<bool, Error> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => {
            let pair = format!("IgnoreUnknown={value}");
            Err(fail!(InvalidEnvironment, "ARGS: error parsing value of pair {pair:?}: neither true nor false"))
        }
    }
}

#[cfg(test)]
mod tests;
