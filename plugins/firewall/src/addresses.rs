//! The addresses that rules are for.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_core::result::CniResult;

/// The result of the plugins before.
pub fn prev_result(request: &Request) -> Result<CniResult, Error> {
    let details = "chain firewall behind the plugin that assigns addresses";
    let alone = || fail!(InvalidConfig, "missing prevResult from earlier plugin", details: "{details}");
    request.prev_result()?.ok_or_else(alone)
}

/// The addresses of a result, IPv4 first, each once. The interface that they are on does not matter.
pub fn addresses(result: &CniResult) -> Vec<IpAddr> {
    sorted(result.ips.iter().map(|ip| ip.address.address()))
}

/// Addresses by family, IPv4 first, each once.
pub fn sorted(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut unique: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    unique.sort_by_key(|address| Family::of(*address));
    unique
}

/// The families of some addresses, one for each.
pub fn families(addresses: &[IpAddr]) -> impl Iterator<Item = Family> {
    addresses.iter().map(|address| Family::of(*address))
}
