//! The static IPAM plugin: returns the configured addresses, and keeps no state.
//!
//! The addresses of all sources are in the reference's order: those of `ipam.addresses` and `CNI_ARGS`, unless
//! `args.cni.ips` replaces them; `runtimeConfig.ips` replaces all others. It does not look at the machine.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, parse_ip};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::json::Json;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns, IpConfig};
use cni_plugin::host::Host;
use cni_plugin::ipam::{RequestedKeys, RouteKeys, no_section, parse_optional_ip, refuse_several_of_a_family};
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;
use serde::Deserialize;

/// The plugin.
pub struct Static;

impl Plugin for Static {
    fn kind(&self) -> &'static str {
        "static"
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        configured_result(request).map(drop)
    }

    fn add(&self, request: &Request, _journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        configured_result(request)
    }

    /// Nothing was reserved.
    fn del(&self, _request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        Ok(())
    }

    /// Verifies that `prevResult` has every configured address, with its gateway.
    fn check(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        let wanted = configured_result(request)?;
        let result = request.prev_result()?.ok_or_else(|| fail!(InvalidConfig, "Required prevResult missing"))?;
        let ifname = request.attachment()?.ifname;
        wanted.ips.iter().try_for_each(|ip| find(ip, &result, ifname.as_str()))
    }

    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        self.examine(request)
    }
}

fn find(&IpConfig { address: cidr, gateway, .. }: &IpConfig, result: &CniResult, ifname: &str) -> Result<(), Error> {
    let mut found = result.ips.iter().filter(|ip| ip.address == cidr).peekable();
    if found.peek().is_none() {
        return Err(fail!(
            CheckFailed,
            "static: Failed to find addr {cidr} on interface {ifname}",
            details: "{cidr} is configured, and not in prevResult"
        ));
    }
    match gateway {
        Some(gateway) if !found.any(|ip| ip.gateway == Some(gateway)) => Err(fail!(
            CheckFailed,
            "static: Failed to match addr {gateway} on interface {ifname}",
            details: "the gateway of {cidr} in prevResult is another one"
        )),
        Some(_) | None => Ok(()),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    ipam: Option<IpamKeys>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IpamKeys {
    addresses: Vec<AddressKeys>,
    routes: Vec<RouteKeys>,
    dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AddressKeys {
    address: String,
    gateway: String,
    /// `Address`. The reference has two fields whose names differ only in case, so this is not another spelling of
    /// `address`. There it is an object of bytes, which nobody uses; here a text counts if there is no `address`.
    #[serde(rename = "Address")]
    capitalized: Option<Json>,
}

/// The result of ADD. The addresses of `ipam.addresses` are checked when they are used.
///
/// # Errors
/// For the first value that cannot be used, with the reference's messages.
fn configured_result(request: &Request) -> Result<CniResult, Error> {
    let Keys { ipam } = request.decode()?;
    let IpamKeys { addresses, routes, dns } = ipam.ok_or_else(no_section)?;
    // The reference reads gateways with the rest of the configuration, even if the addresses are replaced.
    for (index, keys) in addresses.iter().enumerate() {
        keys.gateway(index)?;
    }
    let configured: Vec<_> = addresses.iter().enumerate().map(|(index, keys)| keys.parse(index)).collect();
    let usable: Vec<IpConfig> = configured.iter().flatten().copied().collect();
    let cni_args = request.args()?;
    let from_args = parse_args(cni_args.ip.as_deref(), &usable)?;
    let requested = request.decode::<RequestedKeys>()?.lists();
    let requested = requested.iter().map(|(key, list)| parse_list(key, list, &usable));
    let requested: Vec<Vec<IpConfig>> = requested.collect::<Result<_, _>>()?;
    let replacement = requested.into_iter().rev().find(|list| !list.is_empty());
    let mut ips = match replacement {
        Some(list) => list,
        None => configured.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().chain(from_args).collect(),
    };
    set_gateways(&mut ips, cni_args.gateway.as_deref())?;
    refuse_several_of_a_family(ips.iter().map(|ip| ip.address.family()), request.version)?;
    Ok(CniResult { interfaces: Vec::new(), ips, routes: RouteKeys::parse_all(&routes)?, dns })
}

impl AddressKeys {
    fn parse(&self, index: usize) -> Result<IpConfig, Error> {
        let text = self.text();
        let refused = || {
            fail!(
                InvalidConfig,
                "the 'address' field is expected to be in CIDR notation, got: '{text}'",
                details: "ipam.addresses[{index}].address"
            )
        };
        let address = parse_cidr(text).ok_or_else(refused)?;
        Ok(IpConfig { interface: None, address, gateway: self.gateway(index)? })
    }

    fn text(&self) -> &str {
        match &self.capitalized {
            Some(Json::String(text)) if self.address.is_empty() => text,
            Some(_) | None => &self.address,
        }
    }

    fn gateway(&self, index: usize) -> Result<Option<IpAddr>, Error> {
        parse_optional_ip(&format!("ipam.addresses[{index}].gateway"), &self.gateway)
    }
}

/// Parses a network. The reference treats an IPv4 address in IPv6 notation with a prefix shorter than 96 as `/0`; it is
/// refused here.
fn parse_cidr(text: &str) -> Option<Cidr> {
    let is_plain = |cidr: &Cidr| cidr.address().to_canonical() == cidr.address();
    text.parse().ok().filter(is_plain)
}

/// An address from outside of `ipam.addresses`. In the network of a configured address it may do without a prefix
/// length, as podman sends it, and has that one's gateway.
fn parse_given(text: &str, configured: &[IpConfig]) -> Option<IpConfig> {
    let bare = || {
        let address = parse_ip(text)?;
        Cidr::new(address, network_of(address, configured)?.address.prefix())
    };
    let address = parse_cidr(text).or_else(bare)?;
    let gateway = network_of(address.address(), configured).and_then(|configured| configured.gateway);
    Some(IpConfig { interface: None, address, gateway })
}

fn network_of(address: IpAddr, configured: &[IpConfig]) -> Option<&IpConfig> {
    configured.iter().find(|configured| configured.address.contains(address))
}

fn parse_args(list: Option<&str>, configured: &[IpConfig]) -> Result<Vec<IpConfig>, Error> {
    let parse = |text: &str| {
        let text = text.trim();
        parse_given(text, configured).ok_or_else(|| {
            let text = format!("the 'ip' field is expected to be in CIDR notation, got: '{text}'");
            fail!(InvalidEnvironment, "{text}", details: "IP in CNI_ARGS")
        })
    };
    list.map_or_else(|| Ok(Vec::new()), |list| list.split(',').map(parse).collect())
}

fn parse_list(key: &str, list: &[String], configured: &[IpConfig]) -> Result<Vec<IpConfig>, Error> {
    let parse = |(index, text): (usize, &String)| {
        let refused = || {
            let text = format!("an entry in the 'ips' field is NOT in CIDR notation, got: '{text}'");
            fail!(InvalidConfig, "{text}", details: "{key}[{index}]")
        };
        parse_given(text, configured).ok_or_else(refused)
    };
    list.iter().enumerate().map(parse).collect()
}

/// Sets each gateway for the addresses whose network contains it; the last one wins.
fn set_gateways(ips: &mut [IpConfig], list: Option<&str>) -> Result<(), Error> {
    for text in list.into_iter().flat_map(|list| list.split(',')) {
        let refused = || fail!(InvalidEnvironment, "invalid gateway address: {text}", details: "GATEWAY in CNI_ARGS");
        let gateway = parse_ip(text.trim()).ok_or_else(refused)?;
        let mut matched = false;
        for ip in ips.iter_mut().filter(|ip| ip.address.contains(gateway)) {
            ip.gateway = Some(gateway);
            matched = true;
        }
        if !matched {
            log::info!("GATEWAY {gateway} of CNI_ARGS is in no address's network, and is ignored");
        }
    }
    Ok(())
}
