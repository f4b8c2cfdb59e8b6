//! The result of ADD: one structure inside the plugins, printed in the form of any version of the SPEC.
//!
//! Plugins work with [`CniResult`], which holds everything that version 1.1.0 can express. [`CniResult::parse_prev`]
//! reads a `prevResult`, [`CniResult::parse_any`] reads the answer of a delegate of any version, and
//! [`CniResult::render`] prints the form of the configuration's version, byte for byte as the reference does.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, de};

use crate::cidr::{Cidr, parse_ip};
use crate::error::{Code, Failure};
use crate::family::Family;
use crate::json::{Json, JsonError};
use crate::version::Version;

pub mod render;

/// A result that cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    /// The object's version does not have the shape of the configuration's version.
    #[error("could not parse prevResult: result type supports [{}] but unmarshalled CNIVersion is {found:?}", supported.join(" "))]
    Version {
        /// The versions that have the configuration's shape.
        supported: &'static [&'static str],
        /// The version of the object.
        found: String,
    },
    /// The object's version is unknown.
    #[error("unsupported CNI result version {found:?}")]
    Unknown {
        /// The version of the object.
        found: String,
    },
    /// The object does not have the shape of its version.
    #[error("could not parse prevResult")]
    Shape(#[source] JsonError),
    /// The answer of a delegated plugin does not have the shape of its version.
    #[error("could not parse the result of a plugin")]
    Answer(#[source] JsonError),
    /// Versions up to 0.2.0 cannot express a result without addresses.
    #[error("cannot convert: no valid IP addresses")]
    NoAddress {
        /// The version that was asked for.
        version: Version,
    },
}

impl ResultError {
    /// The same of the answer of a plugin, which is no `prevResult`.
    fn of_answer(self) -> Self {
        match self {
            Self::Shape(error) => Self::Answer(error),
            Self::Version { .. } | Self::Unknown { .. } | Self::Answer(_) | Self::NoAddress { .. } => self,
        }
    }
}

impl Failure for ResultError {
    fn code(&self) -> Code {
        match self {
            Self::Version { .. } | Self::Unknown { .. } | Self::Shape(_) | Self::Answer(_) => Code::Decoding,
            Self::NoAddress { .. } => Code::UnsupportedField,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Shape(error) | Self::Answer(error) => error.to_string(),
            Self::NoAddress { version } => format!("a result of cniVersion {version} needs an address"),
            Self::Version { .. } | Self::Unknown { .. } => String::new(),
        }
    }
}

/// What an ADD has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CniResult {
    /// Every interface made or used, on the host and in the container.
    pub interfaces: Vec<Interface>,
    /// Every address assigned.
    pub ips: Vec<IpConfig>,
    /// Routes installed in the container.
    pub routes: Vec<Route>,
    /// Name resolution for the container.
    pub dns: Dns,
}

/// An interface of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Link-layer address; empty if the interface has no such address.
    pub mac: String,
    /// MTU in bytes, 0 for not given.
    pub mtu: i64,
    /// Path of the network namespace, empty on the host.
    pub sandbox: String,
    /// Path of a socket file.
    pub socket_path: String,
    /// Address on the PCI bus.
    #[serde(rename = "pciID")]
    pub pci_id: String,
}

/// An address of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpConfig {
    /// Index into the result's interfaces.
    pub interface: Option<i64>,
    /// Address and prefix length.
    pub address: Cidr,
    /// Default gateway for the address.
    pub gateway: Option<IpAddr>,
}

/// A route of a result or a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination, as given: host bits are kept.
    pub dst: Cidr,
    /// Next hop.
    pub gw: Option<IpAddr>,
    /// MTU along the path, 0 for not set.
    pub mtu: i64,
    /// TCP maximum segment size to announce, 0 for not set.
    pub advmss: i64,
    /// Metric, 0 for not set.
    pub priority: i64,
    /// Routing table.
    pub table: Option<i64>,
    /// Scope.
    pub scope: Option<i64>,
}

/// Name resolution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Dns {
    /// Name servers in order of preference.
    pub nameservers: Option<Vec<String>>,
    /// Local domain.
    pub domain: String,
    /// Search list.
    pub search: Option<Vec<String>>,
    /// Options of the resolver.
    pub options: Option<Vec<String>>,
}

impl Dns {
    /// Whether no field is given; an empty list counts as given.
    pub fn is_absent(&self) -> bool {
        self.nameservers.is_none() && self.search.is_none() && self.options.is_none() && self.domain.is_empty()
    }
}

/// The three forms of results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// 0.1.0 and 0.2.0: `ip4` and `ip6`.
    Ancient,
    /// 0.3.0 to 0.4.0: lists, with `ips[].version`.
    Legacy,
    /// 1.0.0 and later.
    Modern,
}

impl Shape {
    fn of(version: Version) -> Self {
        match version {
            Version::V0_1_0 | Version::V0_2_0 => Self::Ancient,
            Version::V0_3_0 | Version::V0_3_1 | Version::V0_4_0 => Self::Legacy,
            Version::V1_0_0 | Version::V1_1_0 => Self::Modern,
        }
    }

    /// The texts that a `prevResult` of this shape may have as `cniVersion`.
    fn texts(self) -> &'static [&'static str] {
        match self {
            Self::Ancient => &["", "0.1.0", "0.2.0"],
            Self::Legacy => &["0.3.0", "0.3.1", "0.4.0"],
            Self::Modern => &["1.0.0", "1.1.0"],
        }
    }
}

impl CniResult {
    /// Reads the `prevResult` of a configuration of version `config`.
    ///
    /// # Errors
    /// [`ResultError::Version`] when its own version has another shape, [`ResultError::Shape`] when its
    /// content does not fit.
    pub fn parse_prev(json: &Json, config: Version) -> Result<Self, ResultError> {
        let shape = Shape::of(config);
        match version_text(json)? {
            Some(found) if !shape.texts().contains(&found) => {
                Err(ResultError::Version { supported: shape.texts(), found: found.to_owned() })
            }
            Some(_) | None => Self::parse_shape(json, shape),
        }
    }

    /// Reads the answer of a delegated plugin, which may be of any version; without one it is `assumed`.
    ///
    /// # Errors
    /// [`ResultError::Unknown`] for an unknown version, [`ResultError::Answer`] when the content does not fit.
    pub fn parse_any(json: &Json, assumed: Version) -> Result<Self, ResultError> {
        let parse = || {
            let version = match version_text(json)? {
                None | Some("") => assumed,
                Some(text) => Version::parse(text).ok_or_else(|| ResultError::Unknown { found: text.to_owned() })?,
            };
            Self::parse_shape(json, Shape::of(version))
        };
        parse().map_err(ResultError::of_answer)
    }

    fn parse_shape(json: &Json, shape: Shape) -> Result<Self, ResultError> {
        match shape {
            Shape::Ancient => json.decode().map(Result010::into_result),
            Shape::Legacy | Shape::Modern => json.decode().map(ResultFrom030::into_result),
        }
        .map_err(ResultError::Shape)
    }

    /// The addresses of the interface `ifname` inside a sandbox: those whose `interface` names it, and those that name
    /// no interface.
    pub fn ips_of<'a>(&'a self, ifname: &'a str) -> impl Iterator<Item = &'a IpConfig> {
        self.ips.iter().filter(move |ip| {
            let interface = ip.interface.and_then(|index| usize::try_from(index).ok());
            interface
                .and_then(|index| self.interfaces.get(index))
                .is_none_or(|interface| interface.name == ifname && !interface.sandbox.is_empty())
        })
    }
}

fn version_text(json: &Json) -> Result<Option<&str>, ResultError> {
    match json.get("cniVersion") {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => match other.decode::<String>() {
            Ok(_) => Ok(None),
            Err(error) => Err(ResultError::Shape(error.below("cniVersion"))),
        },
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResultFrom030 {
    interfaces: Vec<Interface>,
    ips: Vec<IpConfig>,
    routes: Vec<Route>,
    dns: Dns,
}

impl ResultFrom030 {
    fn into_result(self) -> CniResult {
        let Self { interfaces, ips, routes, dns } = self;
        CniResult { interfaces, ips, routes, dns }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Result010 {
    ip4: Option<Ip010>,
    ip6: Option<Ip010>,
    dns: Dns,
}

#[derive(Deserialize)]
struct Ip010 {
    ip: Cidr,
    #[serde(default, deserialize_with = "optional_ip")]
    gateway: Option<IpAddr>,
    #[serde(default)]
    routes: Vec<Route>,
}

impl Result010 {
    fn into_result(self) -> CniResult {
        let mut result = CniResult { dns: self.dns, ..CniResult::default() };
        for Ip010 { ip, gateway, routes } in [self.ip4, self.ip6].into_iter().flatten() {
            result.ips.push(IpConfig { interface: None, address: ip, gateway });
            result.routes.extend(routes);
        }
        result
    }
}

impl<'de> Deserialize<'de> for IpConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct IpConfigFields {
            #[serde(default)]
            interface: Option<i64>,
            address: Cidr,
            #[serde(default, deserialize_with = "optional_ip")]
            gateway: Option<IpAddr>,
        }
        let IpConfigFields { interface, address, gateway } = IpConfigFields::deserialize(deserializer)?;
        Ok(Self { interface, address, gateway })
    }
}

impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct RouteFields {
            dst: Cidr,
            #[serde(default, deserialize_with = "optional_ip")]
            gw: Option<IpAddr>,
            #[serde(default)]
            mtu: i64,
            #[serde(default)]
            advmss: i64,
            #[serde(default)]
            priority: i64,
            #[serde(default)]
            table: Option<i64>,
            #[serde(default)]
            scope: Option<i64>,
        }
        let RouteFields { dst, gw, mtu, advmss, priority, table, scope } = RouteFields::deserialize(deserializer)?;
        Ok(Self { dst, gw, mtu, advmss, priority, table, scope })
    }
}

impl Route {
    /// A route to `dst` by way of `gw`, with nothing else set.
    pub const fn via(dst: Cidr, gw: IpAddr) -> Self {
        Self { dst, gw: Some(gw), mtu: 0, advmss: 0, priority: 0, table: None, scope: None }
    }

    /// The family of the destination.
    pub const fn family(&self) -> Family {
        self.dst.family()
    }

    /// Whether the destination is every address of its family.
    pub fn is_default(&self) -> bool {
        self.dst.prefix() == 0
    }
}

/// Decodes an address; the empty text means `None`.
///
/// # Errors
/// `invalid IP address: …` for any other text that is not an address.
pub fn optional_ip<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "" => Ok(None),
        text => parse_ip(text).map(Some).ok_or_else(|| de::Error::custom(format_args!("invalid IP address: {text}"))),
    }
}

#[cfg(test)]
mod tests;
