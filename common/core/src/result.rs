//! The result of ADD: one structure inside the plugins, printed in the form of any version of the SPEC.
//!
//! Plugins work with [`CniResult`], which holds everything that version 1.1.0 can express. [`CniResult::parse_prev`]
//! reads a `prevResult`, [`CniResult::parse_any`] reads the answer of a delegate of any version, and
//! [`CniResult::render`] prints the form of the configuration's version, byte for byte as the reference does.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, de};

use crate::cidr::{Cidr, parse_ip};
use crate::error::Error;
use crate::fail;
use crate::family::Family;
use crate::json::{Json, JsonError};
use crate::version::Version;

pub mod render;

/// What an ADD has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "struct ResultFrom030")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(expecting = "struct IpConfigFields")]
pub struct IpConfig {
    /// Index into the result's interfaces.
    pub interface: Option<i64>,
    /// Address and prefix length.
    pub address: Cidr,
    /// Default gateway for the address.
    #[serde(default, deserialize_with = "optional_ip")]
    pub gateway: Option<IpAddr>,
}

/// A route of a result or a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(expecting = "struct RouteFields")]
pub struct Route {
    /// Destination, as given: host bits are kept.
    pub dst: Cidr,
    /// Next hop.
    #[serde(default, deserialize_with = "optional_ip")]
    pub gw: Option<IpAddr>,
    /// MTU along the path, 0 for not set.
    #[serde(default)]
    pub mtu: i64,
    /// TCP maximum segment size to announce, 0 for not set.
    #[serde(default)]
    pub advmss: i64,
    /// Metric, 0 for not set.
    #[serde(default)]
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
    /// When its own version has another shape, and when its content does not fit.
    pub fn parse_prev(json: &Json, config: Version) -> Result<Self, Error> {
        let shape = Shape::of(config);
        let refused = |problem: JsonError| fail!(Decoding, "could not parse prevResult", details: "{problem}");
        match version_text(json).map_err(refused)? {
            Some(found) if !shape.texts().contains(&found) => {
                let supported = shape.texts().join(" ");
                Err(fail!(
                    Decoding,
                    "could not parse prevResult: result type supports [{supported}] but unmarshalled CNIVersion is {found:?}"
                ))
            }
            Some(_) | None => Self::parse_shape(json, shape).map_err(refused),
        }
    }

    /// Reads the answer of a delegated plugin, which may be of any version; without one it is `assumed`.
    ///
    /// # Errors
    /// For an unknown version, and when the content does not fit.
    pub fn parse_any(json: &Json, assumed: Version) -> Result<Self, Error> {
        let refused =
            |problem: JsonError| fail!(Decoding, "could not parse the result of a plugin", details: "{problem}");
        let version = match version_text(json).map_err(refused)? {
            None | Some("") => assumed,
            Some(text) => {
                Version::parse(text).ok_or_else(|| fail!(Decoding, "unsupported CNI result version {text:?}"))?
            }
        };
        Self::parse_shape(json, Shape::of(version)).map_err(refused)
    }

    fn parse_shape(json: &Json, shape: Shape) -> Result<Self, JsonError> {
        match shape {
            Shape::Ancient => json.decode().map(Result010::into_result),
            Shape::Legacy | Shape::Modern => json.decode(),
        }
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

fn version_text(json: &Json) -> Result<Option<&str>, JsonError> {
    match json.get("cniVersion") {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => other.decode::<String>().map(|_| None).map_err(|error| error.below("cniVersion")),
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
fn optional_ip<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "" => Ok(None),
        text => parse_ip(text).map(Some).ok_or_else(|| de::Error::custom(format_args!("invalid IP address: {text}"))),
    }
}

#[cfg(test)]
mod tests;
