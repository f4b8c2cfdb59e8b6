//! The configuration of the delegate, composed from `delegate`, `ipam` and the lease. It equals the reference's byte for byte,
//! since either plugin may read the other's files.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::json::Json;
use cni_core::request::Request;
use cni_core::result::Route;
use cni_core::version::Version;

use crate::config::{Config, JsonObject};
use crate::lease::SubnetLease;

/// The default delegate.
pub const BRIDGE: &str = "bridge";
const HOST_LOCAL: &str = "host-local";

/// The configuration with which the delegate is called.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegateConfig {
    /// The type of the delegate.
    pub plugin: String,
    /// The members of its configuration, sorted.
    members: JsonObject,
}

impl DelegateConfig {
    /// Composes the configuration. Without a lease it lacks the keys that only a lease gives.
    ///
    /// # Errors
    /// If the routes of `ipam` are invalid.
    pub fn new<'a>(config: &Config, lease: impl Into<Option<&'a SubnetLease>>) -> Result<Self, Error> {
        let lease = lease.into();
        let mut members = config.delegate.clone();
        let text = |text: &str| Json::String(text.to_owned());
        members.insert("name".to_owned(), text(&config.network));
        members.entry("type".to_owned()).or_insert_with(|| text(BRIDGE));
        if let Some(lease) = lease {
            members.entry("ipMasq".to_owned()).or_insert(Json::Bool(!lease.ip_masq));
            members.entry("mtu".to_owned()).or_insert(Json::Integer(lease.mtu.into()));
        }
        if members.get("type") == Some(&text(BRIDGE)) {
            members.entry("isGateway".to_owned()).or_insert(Json::Bool(true));
        }
        if !config.cni_version.is_empty() {
            members.insert("cniVersion".to_owned(), text(&config.cni_version));
        }
        members.insert("ipam".to_owned(), ipam(&config.ipam, lease)?);
        members.extend(config.runtime_config.clone().map(|given| ("runtimeConfig".to_owned(), given)));
        let plugin = string(&members, "type").unwrap_or(BRIDGE).to_owned();
        Ok(Self { plugin, members: sorted(members) })
    }

    /// Parses a composed configuration, ours or the reference's; `None` if it is torn.
    pub fn parse(text: &str) -> Option<Self> {
        let Json::Object(entries) = Json::parse(text.as_bytes()).ok()? else { return None };
        let members: JsonObject = entries.into_iter().collect();
        let plugin = string(&members, "type").filter(|plugin| !plugin.is_empty())?.to_owned();
        string(&members, "name")?;
        Some(Self { plugin, members })
    }

    /// The network.
    pub fn network(&self) -> &str {
        string(&self.members, "name").unwrap_or_default()
    }

    /// Sets a member.
    #[must_use]
    pub fn with(mut self, key: &str, value: Json) -> Self {
        self.members.insert(key.to_owned(), value);
        self
    }

    /// Adds the result of ADD, if the runtime gives one that can be read, in the version of this configuration: that of the list may have
    /// changed since ADD.
    #[must_use]
    pub fn with_result_of(self, request: &Request) -> Self {
        let version = string(&self.members, "cniVersion").map_or(Some(Version::V0_1_0), Version::parse);
        let result = match (request.prev_result(), version) {
            (Ok(Some(_)), Some(version)) if version == request.version => request.config().get("prevResult").cloned(),
            (Ok(Some(result)), Some(version)) => {
                result.render(version).ok().and_then(|text| Json::parse(text.as_bytes()).ok())
            }
            (Ok(_) | Err(_), _) => None,
        };
        if let Some(result) = result { self.with("prevResult", result) } else { self }
    }

    /// A member of the configuration.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.members.get(key)
    }

    /// The subnets of `ipam.ranges`.
    pub fn subnets(&self) -> Vec<Cidr> {
        let ranges = self.get("ipam").and_then(|ipam| ipam.get("ranges"));
        let Some(Json::Array(sets)) = ranges else { return Vec::new() };
        let sets = sets.iter().filter_map(|set| if let Json::Array(ranges) = set { Some(ranges) } else { None });
        sets.flatten().filter_map(|range| range.get("subnet")?.decode().ok()).collect()
    }

    /// The configuration as text.
    pub fn text(&self) -> String {
        Json::Object(self.members.clone().into_iter().collect()).to_string()
    }
}

fn string<'a>(members: &'a JsonObject, key: &str) -> Option<&'a str> {
    if let Some(Json::String(text)) = members.get(key) { Some(text) } else { None }
}

/// Sorts the members of all objects but routes, whose members the reference prints in a fixed order.
fn sorted(members: JsonObject) -> JsonObject {
    let sort = |(key, value): (String, Json)| {
        let value = if key == "ipam" { value } else { value.sorted() };
        (key, value)
    };
    members.into_iter().map(sort).collect()
}

fn ipam(base: &JsonObject, lease: Option<&SubnetLease>) -> Result<Json, Error> {
    let mut ipam: JsonObject = base.iter().map(|(key, value)| (key.clone(), value.clone().sorted())).collect();
    ipam.entry("type".to_owned()).or_insert_with(|| Json::String(HOST_LOCAL.to_owned()));
    let Some(lease) = lease else { return Ok(Json::Object(ipam.into_iter().collect())) };
    let own: Vec<Route> = base.get("routes").map_or(Ok(Vec::new()), Json::decode).map_err(|error| {
        let text = "failed to assemble Delegate IPAM: failed to read IPAM routes: failed to parse ipam.routes";
        fail!(InvalidConfig, "{text}: {error}")
    })?;
    let networks = lease.networks.iter().map(|network| object([("dst", cidr(*network))]));
    ipam.insert("routes".to_owned(), Json::Array(own.iter().map(route).chain(networks).collect()));
    let range = |subnet: &Cidr| Json::Array(vec![object([("subnet", cidr(subnet.network()))])]);
    ipam.insert("ranges".to_owned(), Json::Array(lease.subnets.iter().map(range).collect()));
    Ok(Json::Object(ipam.into_iter().collect()))
}

/// The members that a route of the reference has, in its order; numbers that are zero are left out.
fn route(route: &Route) -> Json {
    let Route { dst, gw, mtu, advmss, priority, table, scope } = route;
    let nonzero = |number: i64| Some(number).filter(|number| *number != 0);
    let numbers = [
        ("mtu", nonzero(*mtu)),
        ("advmss", nonzero(*advmss)),
        ("priority", nonzero(*priority)),
        ("table", *table),
        ("scope", *scope),
    ];
    let numbers = numbers.into_iter().filter_map(|(key, number)| Some((key, Json::Integer(number?.into()))));
    let gw = gw.map(|gw| ("gw", Json::String(gw.to_string())));
    object([("dst", cidr(*dst))].into_iter().chain(gw).chain(numbers))
}

fn cidr(cidr: Cidr) -> Json {
    Json::String(cidr.to_string())
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests;
