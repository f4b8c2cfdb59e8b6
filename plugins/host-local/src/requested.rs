//! Addresses that the runtime or the user requests: `CNI_ARGS`, `args.cni.ips`, `runtimeConfig.ips`.
//!
//! They are kept in that order, without duplicates. A prefix length after an address is ignored. Pure.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, parse_ip};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_plugin::ipam::RequestedKeys;

/// Collects the requested addresses.
///
/// # Errors
/// For the first that is not an address, and the errors of `CNI_ARGS`.
pub fn collect(request: &Request) -> Result<Vec<IpAddr>, Error> {
    let mut requested = Vec::new();
    if let Some(text) = request.args()?.ip {
        requested.push(parse_address(&text).ok_or_else(|| {
            let pair = format!("IP={text}");
            let text = format!("invalid IP address {text}");
            fail!(InvalidEnvironment, "ARGS: error parsing value of pair {pair:?}: {text}")
        })?);
    }
    for (key, texts) in request.decode::<RequestedKeys>()?.lists() {
        for (index, text) in texts.iter().enumerate() {
            let address = parse_listed(&format!("{key}[{index}]"), text)?;
            if !requested.contains(&address) {
                requested.push(address);
            }
        }
    }
    Ok(requested)
}

fn parse_listed(key: &str, text: &str) -> Result<IpAddr, Error> {
    if text.is_empty() {
        return Err(fail!(InvalidConfig, "invalid IP address: none is given", details: "{key} is empty or null"));
    }
    parse_address(text).ok_or_else(|| fail!(InvalidConfig, "invalid IP address {text}", details: "{key}"))
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains('/') { text.parse::<Cidr>().ok().map(Cidr::address) } else { parse_ip(text) }
}
