//! What a server grants: the address, for how long, and the settings of the network.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use cni_core::cidr::Cidr;
use cni_core::result::{CniResult, Dns, IpConfig, Route};
use serde::{Deserialize, Serialize};

use crate::wire::{Incoming, code};

/// The length of a lease if the server does not name it, as in the reference.
const DEFAULT_SECONDS: u32 = 60 * 60;
/// A lease that does not end (RFC 2131 section 3.3).
const WITHOUT_END: u32 = u32::MAX;
/// The smallest MTU of RFC 2132 section 5.1.
const SMALLEST_MTU: u16 = 68;

/// `RT_SCOPE_LINK` of `linux/rtnetlink.h`: the destination is on the link.
const SCOPE_LINK: i64 = 253;

/// A network, and the router to it; 0.0.0.0 if it is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedRoute {
    /// The network's address.
    pub to: Ipv4Addr,
    /// The length of its prefix.
    pub prefix: u8,
    /// The router.
    pub router: Ipv4Addr,
}

/// A granted address with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The address.
    pub address: Ipv4Addr,
    /// The length of the network's prefix.
    pub prefix: u8,
    /// The server.
    pub server: Ipv4Addr,
    /// For how many seconds; none if for ever.
    pub seconds: Option<u32>,
    /// After how many of them the server is asked for more.
    pub renewal: u32,
    /// After how many of them any server is.
    pub rebinding: u32,
    /// Routers, the best first.
    pub routers: Vec<Ipv4Addr>,
    /// Other routes: those of option 121, which replace all others, or else those of option 33.
    pub routes: Vec<GrantedRoute>,
    /// Whether the routes are those of option 121.
    pub is_classless: bool,
    /// Name servers.
    pub nameservers: Vec<Ipv4Addr>,
    /// The domain of the network.
    pub domain: Option<String>,
    /// Domains in which names are looked for.
    pub search: Vec<String>,
    /// The MTU of the network in bytes.
    pub mtu: Option<u16>,
}

impl Grant {
    /// Parses a DHCPACK.
    ///
    /// # Errors
    /// What is missing, without which the container would have no network, or the lease could not be renewed. Other missing or
    /// malformed options are ignored.
    pub fn of(ack: &Incoming) -> Result<Self, String> {
        if ack.address.is_unspecified() {
            return Err("DHCPACK has no address".to_owned());
        }
        let options = &ack.options;
        let missing = |option| format!("DHCP option {option} not found in DHCPACK");
        let number = |code| options.array::<4>(code).map(u32::from_be_bytes);
        let seconds = number(code::LEASE_TIME).unwrap_or(DEFAULT_SECONDS);
        let whole = seconds.max(1);
        let rebinding = number(code::REBINDING_TIME).unwrap_or(part(whole, 85)).min(whole);
        let classless = options.get(code::CLASSLESS_ROUTE).map(classless_routes).filter(|routes| !routes.is_empty());
        let is_classless = classless.is_some();
        Ok(Self {
            address: ack.address,
            prefix: prefix(options.array(code::SUBNET_MASK).ok_or_else(|| missing("Subnet Mask"))?)?,
            server: ack.server().ok_or_else(|| missing("Server Identifier"))?,
            seconds: (seconds != WITHOUT_END).then_some(whole),
            renewal: number(code::RENEWAL_TIME).unwrap_or(part(whole, 50)).min(rebinding),
            rebinding,
            routers: addresses(options.get(code::ROUTER)),
            routes: classless.unwrap_or_else(|| static_routes(options.get(code::STATIC_ROUTE).unwrap_or_default())),
            is_classless,
            nameservers: addresses(options.get(code::DOMAIN_NAME_SERVER)),
            domain: options.get(code::DOMAIN_NAME).and_then(name),
            search: options.get(code::DOMAIN_SEARCH).map(domains).unwrap_or_default(),
            mtu: options.array(code::INTERFACE_MTU).map(u16::from_be_bytes).filter(|mtu| *mtu >= SMALLEST_MTU),
        })
    }

    /// For how long it is granted; none if for ever.
    pub fn time(&self) -> Option<Duration> {
        self.seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// The result of ADD; `priority` is the metric of all its routes unless 0.
    pub fn result(&self, priority: i64) -> CniResult {
        let gateway = self.routers.first().copied();
        let address = cidr(self.address, self.prefix);
        let ip = IpConfig { interface: None, address, gateway: gateway.map(IpAddr::V4) };
        let default = gateway.filter(|_| !self.is_classless);
        let default = default.map(|router| GrantedRoute { to: Ipv4Addr::UNSPECIFIED, prefix: 0, router });
        let mtu = self.mtu.map_or(0, i64::from);
        let routes = self.routes.iter().copied().chain(default).map(|reported| route(reported, priority, mtu));
        CniResult { interfaces: Vec::new(), ips: vec![ip], routes: routes.collect(), dns: self.dns() }
    }

    fn dns(&self) -> Dns {
        let texts = |found: Vec<String>| Some(found).filter(|found| !found.is_empty());
        Dns {
            nameservers: texts(self.nameservers.iter().map(ToString::to_string).collect()),
            domain: self.domain.clone().unwrap_or_default(),
            search: texts(self.search.clone()),
            options: None,
        }
    }
}

/// A route of the result. A router of 0.0.0.0 means that the destination is on the link (RFC 3442).
fn route(reported: GrantedRoute, priority: i64, mtu: i64) -> Route {
    let scope = reported.router.is_unspecified().then_some(SCOPE_LINK);
    Route { mtu, priority, scope, ..Route::via(cidr(reported.to, reported.prefix), IpAddr::V4(reported.router)) }
}

fn cidr(address: Ipv4Addr, prefix: u8) -> Cidr {
    Cidr::truncated(IpAddr::V4(address), prefix)
}

fn part(seconds: u32, percent: u32) -> u32 {
    u32::try_from(u64::from(seconds) * u64::from(percent) / 100).unwrap_or(seconds)
}

fn prefix(mask: [u8; 4]) -> Result<u8, String> {
    let bits = u32::from_be_bytes(mask);
    let length = bits.leading_ones();
    if bits.count_ones() == length {
        Ok(u8::try_from(length).unwrap_or(32))
    } else {
        Err(format!("DHCP option Subnet Mask {} is no prefix", Ipv4Addr::from(mask)))
    }
}

fn addresses(value: Option<&[u8]>) -> Vec<Ipv4Addr> {
    let parts = value.unwrap_or_default().chunks_exact(4);
    parts.filter_map(|part| part.first_chunk::<4>().copied().map(Ipv4Addr::from)).collect()
}

/// Option 33: pairs of a destination, with the mask of its class, and a router. A default route is not allowed there
/// (RFC 2132) and is ignored.
fn static_routes(value: &[u8]) -> Vec<GrantedRoute> {
    let pairs = value.chunks_exact(8).map(|pair| addresses(Some(pair)));
    let route = |pair: Vec<Ipv4Addr>| {
        let [to, router] = *pair.first_chunk()?;
        let prefix = class_prefix(to)?;
        Some(GrantedRoute { to: masked(to, prefix), prefix, router })
    };
    pairs.filter_map(route).collect()
}

fn class_prefix(address: Ipv4Addr) -> Option<u8> {
    match address.octets()[0] {
        0 => None,
        1..=127 => Some(8),
        128..=191 => Some(16),
        192..=223 => Some(24),
        224.. => None,
    }
}

fn masked(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    Ipv4Addr::from(u32::from(address) & mask)
}

/// Option 121 (RFC 3442): the length of a prefix, as many bytes of the destination as that needs, and a router. Nothing if
/// it is torn.
fn classless_routes(mut value: &[u8]) -> Vec<GrantedRoute> {
    let mut routes = Vec::new();
    while let Some((&prefix, rest)) = value.split_first() {
        let Some((route, rest)) = classless_route(prefix, rest) else { return Vec::new() };
        routes.push(route);
        value = rest;
    }
    routes
}

fn classless_route(prefix: u8, value: &[u8]) -> Option<(GrantedRoute, &[u8])> {
    let (significant, rest) = value.split_at_checked(usize::from(prefix).div_ceil(8))?;
    let (router, rest) = rest.split_first_chunk::<4>()?;
    let mut to = [0; 4];
    to.get_mut(..significant.len())?.copy_from_slice(significant);
    let to = masked(to.into(), prefix);
    Some((GrantedRoute { to, prefix, router: (*router).into() }, rest))
}

/// A name that may be in a resolver's file; any other text of a server is ignored.
fn name(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?.trim_end_matches(['\0', '.']);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (!text.is_empty() && text.len() <= 253 && text.chars().all(is_plain)).then(|| text.to_owned())
}

/// Option 119 (RFC 3397): names as in DNS, which may end in a part of an earlier one. Nothing if it is torn.
fn domains(value: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < value.len() {
        let Some((labels, next)) = labels(value, at) else { return Vec::new() };
        found.extend(name(labels.join(".").as_bytes()));
        at = next;
    }
    found
}

/// The labels of the name at an offset, and the offset of the next name. Pointers lead only backwards, so this ends.
fn labels(value: &[u8], start: usize) -> Option<(Vec<String>, usize)> {
    let (mut at, mut before, mut next, mut labels) = (start, start, None, Vec::new());
    loop {
        match *value.get(at)? {
            0 => return Some((labels, next.unwrap_or(at + 1))),
            length @ 1..=63 => {
                let end = at + 1 + usize::from(length);
                labels.push(String::from_utf8(value.get(at + 1..end)?.to_vec()).ok()?);
                at = end;
            }
            high @ 192.. => {
                next = next.or(Some(at + 2));
                at = usize::from(high & 0x3f) << 8 | usize::from(*value.get(at + 1)?);
                if at >= before {
                    return None;
                }
                before = at;
            }
            64..=191 => return None,
        }
    }
}

#[cfg(test)]
mod tests;
