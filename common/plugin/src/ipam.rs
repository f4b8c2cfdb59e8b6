//! What IPAM plugins share: the routes in the section `ipam`, requested addresses, and errors about addresses that
//! name the key.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, parse_ip};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::result::Route;
use cni_core::version::Version;
use serde::Deserialize;

/// A route as it is written in a configuration.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct RouteKeys {
    dst: String,
    gw: String,
    mtu: i64,
    advmss: i64,
    priority: i64,
    table: Option<i64>,
    scope: Option<i64>,
}

impl RouteKeys {
    /// Reads the list `ipam.routes`.
    ///
    /// # Errors
    /// For the first `dst` that is not a network, or `gw` that is not an address.
    pub fn parse_all(routes: &[Self]) -> Result<Vec<Route>, Error> {
        routes.iter().enumerate().map(|(index, keys)| keys.parse(&format!("ipam.routes[{index}]"))).collect()
    }

    fn parse(&self, path: &str) -> Result<Route, Error> {
        Ok(Route {
            dst: parse_cidr(&format!("{path}.dst"), &self.dst)?,
            gw: parse_optional_ip(&format!("{path}.gw"), &self.gw)?,
            mtu: self.mtu,
            advmss: self.advmss,
            priority: self.priority,
            table: self.table,
            scope: self.scope,
        })
    }
}

/// The addresses that a configuration asks for outside of the section `ipam`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestedKeys {
    args: ArgsKeys,
    runtime_config: AddressesKeys,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ArgsKeys {
    cni: AddressesKeys,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AddressesKeys {
    ips: Vec<String>,
}

impl RequestedKeys {
    /// Each list with its key: `args.cni.ips`, in which the user asks, then `runtimeConfig.ips`.
    pub fn lists(self) -> [(&'static str, Vec<String>); 2] {
        [("args.cni.ips", self.args.cni.ips), ("runtimeConfig.ips", self.runtime_config.ips)]
    }
}

/// The configuration has no section `ipam`.
pub fn no_section() -> Error {
    fail!(InvalidConfig, "IPAM config missing 'ipam' key")
}

/// Reads a network.
pub fn parse_cidr(key: &str, text: &str) -> Result<Cidr, Error> {
    text.parse().map_err(|_| fail!(InvalidConfig, "invalid CIDR address: {text}", details: "{key}"))
}

/// Parses an address; the empty text means `None`.
pub fn parse_optional_ip(key: &str, text: &str) -> Result<Option<IpAddr>, Error> {
    let refused = || fail!(InvalidConfig, "invalid IP address: {text}", details: "{key}");
    if text.is_empty() { Ok(None) } else { parse_ip(text).ok_or_else(refused).map(Some) }
}

/// Refuses a second address of a family in versions whose results hold one of each.
pub fn refuse_several_of_a_family(
    families: impl Iterator<Item = Family> + Clone,
    version: Version,
) -> Result<(), Error> {
    let several = |family| families.clone().filter(|other| *other == family).count() > 1;
    if version < Version::V0_3_0 && Family::ALL.into_iter().any(several) {
        return Err(fail!(InvalidConfig, "CNI version {version} does not support more than 1 address per family"));
    }
    Ok(())
}
