//! Kernel parameters as configurations name them.
//!
//! `net.ipv4.conf.IFNAME.rp_filter` and `net/ipv4/conf/IFNAME/rp_filter` are the same. The name of the interface may
//! contain dots, so it is inserted after dots have become slashes. Only parameters below `net` belong to the
//! container; others are refused.

use std::fmt;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::plan::{Ns, Sysctl};
use cni_plugin::host::Host;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// The placeholder for `CNI_IFNAME` in a name.
const PLACEHOLDER: &str = "IFNAME";

/// A parameter with its value, and with the place of the interface's name still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name as it is written in the configuration.
    pub key: String,
    path: Vec<String>,
    pub value: String,
}

impl Parameter {
    fn parse(key: String, value: String) -> Result<Self, Error> {
        let path: Vec<String> = key.split(['.', '/']).filter(|part| !part.is_empty()).map(str::to_owned).collect();
        match &path[..] {
            [net, _, ..] if net == "net" && !key.contains('\0') => Ok(Self { key, path, value }),
            _ => {
                let (path, example) = (key.replace('.', "/"), "such as net.core.somaxconn");
                Err(fail!(
                    InvalidConfig,
                    "invalid net sysctl key: {path:?}",
                    details: "sysctl {key:?}: only parameters below net belong to a container, {example}"
                ))
            }
        }
    }

    /// The parameter, for an interface of this name. A second placeholder stays what it is.
    pub fn of(&self, name: &IfName) -> Sysctl {
        let mut path = self.path.clone();
        if let Some(part) = path.iter_mut().find(|part| part.contains(PLACEHOLDER)) {
            *part = part.replacen(PLACEHOLDER, name.as_str(), 1);
        }
        Sysctl::fixed(&path.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The parameters that can only be written: each write makes the kernel do something.
const WRITE_ONLY: [&str; 2] = ["net/ipv4/route/flush", "net/ipv6/route/flush"];

/// Whether a parameter is write-only, and so has no value.
pub fn is_write_only(key: &Sysctl) -> bool {
    WRITE_ONLY.contains(&key.path().as_str())
}

/// Reads the value of a parameter of the container; `None` when it has none, or the kernel does not have it.
pub fn value(key: &Sysctl, host: &mut dyn Host) -> Result<Option<String>, Error> {
    if is_write_only(key) { Ok(None) } else { host.files().sysctl(Ns::Container, key) }
}

/// The object `sysctl`, in the order of the document. An empty value changes nothing, as in the reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SysctlKeys(Vec<(String, String)>);

impl SysctlKeys {
    /// Reads the names.
    ///
    /// # Errors
    /// For the first that cannot be used.
    pub fn parse(self) -> Result<Vec<Parameter>, Error> {
        let mut parameters: Vec<Parameter> = Vec::new();
        for (key, value) in self.0 {
            let parameter = Parameter::parse(key, value)?;
            if let Some(earlier) = parameters.iter().find(|earlier| earlier.path == parameter.path) {
                let text = format!("{:?} and {:?}", earlier.key, parameter.key);
                let details = "they are the same parameter";
                return Err(
                    fail!(InvalidConfig, "duplicated sysctl keys are not allowed: {text}", details: "{details}"),
                );
            }
            parameters.push(parameter);
        }
        parameters.retain(|parameter| !parameter.value.is_empty());
        Ok(parameters)
    }
}

/// Puts those that come later in the place of those of the same name, and the others behind.
pub fn merge(mut parameters: Vec<Parameter>, later: Vec<Parameter>) -> Vec<Parameter> {
    for parameter in later {
        match parameters.iter_mut().find(|earlier| earlier.path == parameter.path) {
            Some(earlier) => *earlier = parameter,
            None => parameters.push(parameter),
        }
    }
    parameters
}

/// Whether two values are equal: the kernel separates the numbers of a list by tabs.
pub fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

impl<'de> Deserialize<'de> for SysctlKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for SysctlKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(entry) = map.next_entry()? {
            self.0.push(entry);
        }
        Ok(self)
    }
}
