//! Parses the argument that Nomad sends: which connections are redirected, and where to. It is plain JSON, with Go's
//! names of the fields.
//!
//! Ports, users and networks are written as iptables takes them. Entries that iptables reads in a surprising
//! way are refused: numbers with a leading zero (octal there), addresses of fewer than four parts, host names.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::path::Path;

use cni_core::cidr::Cidr;
use cni_core::error::{Error, Failure as _};
use cni_core::fail;
use cni_core::family::Family;
use cni_core::json::{Json, JsonError};
use cni_netfilter::Proto;
use cni_netfilter::iptables::{Match, PortRange, UidRange};
use cni_plugin::host::Host;
use serde::Deserialize;

/// The name of the argument in `CNI_ARGS`. It holds JSON.
pub const CONFIG: &str = "CONSUL_IPTABLES_CONFIG";

/// The family that is redirected. IPv6 bypasses the proxy, as in the reference.
pub const FAMILY: Family = Family::V4;
/// The protocol that the proxy understands.
pub const PROTO: Proto = Proto::Tcp;

/// The default port of the proxy for the container's own connections.
const OUTBOUND_PORT: u16 = 15001;

/// The destination of DNS questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsRedirection {
    /// All of them go to this address, to the port that they are for.
    Address(Ipv4Addr),
    /// Those to this address go to this port of it.
    Port(SocketAddrV4),
}

/// Which connections are redirected, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    pub dns: Option<DnsRedirection>,
    /// The users that run the proxy, whose connections are not redirected.
    pub proxy: UidRange,
    /// The port of the proxy for connections from outside.
    pub inbound: u16,
    /// The port of the proxy for the container's own connections.
    pub outbound: u16,
    /// Connections to ports of the container that are reached directly.
    pub direct_inbound: Vec<Match>,
    /// Connections to ports elsewhere that the container reaches directly.
    pub direct_outbound: Vec<Match>,
    /// Networks that the container reaches directly.
    pub direct_networks: Vec<Cidr>,
    /// The users whose connections are direct.
    pub direct_users: Vec<UidRange>,
}

/// Reads the argument, and looks names up on the host.
pub fn parse(text: &str, host: &mut dyn Host) -> Result<Redirection, Error> {
    let undecoded = |error: JsonError| {
        Error::stated(error.code(), format!("could not unmarshal CNI args: {CONFIG}"), error.to_string())
    };
    let json = Json::parse(text.as_bytes()).map_err(undecoded)?;
    let keys: Keys = if json == Json::Null { Keys::default() } else { json.decode().map_err(undecoded)? };
    keys.check(&mut Names { host, users: None, services: None })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Keys {
    #[serde(rename = "ConsulDNSIP")]
    dns_address: String,
    #[serde(rename = "ConsulDNSPort")]
    dns_port: i64,
    #[serde(rename = "ProxyUserID")]
    proxy_user: String,
    proxy_inbound_port: i64,
    proxy_outbound_port: i64,
    exclude_inbound_ports: Vec<String>,
    exclude_outbound_ports: Vec<String>,
    #[serde(rename = "ExcludeOutboundCIDRs")]
    networks: Vec<String>,
    #[serde(rename = "ExcludeUIDs")]
    users: Vec<String>,
    /// Nomad's path of the namespace; `CNI_NETNS` is used instead.
    #[serde(rename = "NetNS")]
    _netns: String,
    /// An object of the sender's program, which cannot be sent in JSON.
    iptables_provider: (),
}

impl Keys {
    fn check(self, names: &mut Names<'_>) -> Result<Redirection, Error> {
        let dns = self.dns()?;
        if self.proxy_user.is_empty() {
            return Err(required("ProxyUserID"));
        }
        let proxy = users("ProxyUserID", &self.proxy_user, names)?;
        if self.proxy_inbound_port == 0 {
            return Err(required("ProxyInboundPort"));
        }
        let outbound = if self.proxy_outbound_port == 0 { OUTBOUND_PORT.into() } else { self.proxy_outbound_port };
        Ok(Redirection {
            dns,
            proxy,
            inbound: port("ProxyInboundPort", self.proxy_inbound_port, 1)?,
            outbound: port("ProxyOutboundPort", outbound, 1)?,
            direct_inbound: all(&self.exclude_inbound_ports, |text| ports("ExcludeInboundPorts", text, names))?,
            direct_outbound: all(&self.exclude_outbound_ports, |text| ports("ExcludeOutboundPorts", text, names))?,
            direct_networks: all(&self.networks, networks)?.concat(),
            direct_users: all(&self.users, |text| users("ExcludeUIDs", text, names))?,
        })
    }

    fn dns(&self) -> Result<Option<DnsRedirection>, Error> {
        let text = self.dns_address.as_str();
        let problem = match (text, text.parse::<IpAddr>()) {
            ("", _) => Ok(None),
            (_, Ok(IpAddr::V4(address))) => Ok(Some(address)),
            (_, Ok(IpAddr::V6(_))) => Err("for non dual stack setup ipv4 consulDNSIP required"),
            (_, Err(_)) => Err("unable to parse consulDNSIP"),
        };
        let address = problem.map_err(|problem| refused("ConsulDNSIP", text, problem))?;
        Ok(match (address, port("ConsulDNSPort", self.dns_port, 0)?) {
            (address, 0) => address.map(DnsRedirection::Address),
            (address, port) => {
                Some(DnsRedirection::Port(SocketAddrV4::new(address.unwrap_or(Ipv4Addr::LOCALHOST), port)))
            }
        })
    }
}

fn required(key: &str) -> Error {
    fail!(InvalidEnvironment, "{key} is required to set up traffic redirection", details: "in {CONFIG} of CNI_ARGS")
}

fn refused(key: &str, value: &str, problem: &str) -> Error {
    fail!(InvalidEnvironment, "invalid {key} {value:?}: {problem}", details: "in {CONFIG} of CNI_ARGS")
}

fn port(key: &str, value: i64, least: u16) -> Result<u16, Error> {
    let found = u16::try_from(value).ok().filter(|port| *port >= least);
    found.ok_or_else(|| {
        let text = format!("invalid {key} {value} (must be between {least} and 65535)");
        fail!(InvalidEnvironment, "{text}", details: "in {CONFIG} of CNI_ARGS")
    })
}

fn all<T>(values: &[String], mut parse: impl FnMut(&str) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    values.iter().map(|value| parse(value)).collect()
}

/// Parses a port, or a range; either end of a range may be omitted.
fn ports(key: &str, text: &str, names: &mut Names<'_>) -> Result<Match, Error> {
    let found = match text.split_once(':') {
        None => port_or_service(text, names)?.map(|port| Match::Port(PROTO, port)),
        Some((first, last)) => {
            let first = if first.is_empty() { Some(0) } else { port_or_service(first, names)? };
            let last = if last.is_empty() { Some(u16::MAX) } else { port_or_service(last, names)? };
            let range = first.zip(last).filter(|(first, last)| first <= last && text != ":");
            range.map(|(first, last)| between(first, last))
        }
    };
    let problem = "neither a port from 0 to 65535, nor a range such as 8000:8005, nor a tcp service of /etc/services";
    found.ok_or_else(|| refused(key, text, problem))
}

/// Connections to the ports of a range. For all ports, iptables keeps only the protocol.
fn between(first: u16, last: u16) -> Match {
    match PortRange::new(first, last) {
        Some(range) => Match::PortRange(PROTO, range),
        None if first == last => Match::Port(PROTO, first),
        None => Match::Protocol(PROTO),
    }
}

fn port_or_service(text: &str, names: &mut Names<'_>) -> Result<Option<u16>, Error> {
    if starts_with_digit(text) { Ok(number(text)) } else { names.service(text) }
}

/// Parses a number, a range, or a name.
fn users(key: &str, text: &str, names: &mut Names<'_>) -> Result<UidRange, Error> {
    let range = if starts_with_digit(text) {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        number(first).zip(number(last))
    } else {
        names.user(text)?.map(|user| (user, user))
    };
    let problem = "neither a user ID, nor a range such as 1000-1005, nor a user of /etc/passwd";
    range.and_then(|(first, last)| UidRange::new(first, last)).ok_or_else(|| refused(key, text, problem))
}

/// Parses an address, a network, or several of these with commas between. Those of IPv6 need no rule, since nothing of IPv6 is
/// redirected.
fn networks(text: &str) -> Result<Vec<Cidr>, Error> {
    let problem = "not an address, or a network such as 10.0.0.0/8 or 10.0.0.0/255.0.0.0";
    let found: Option<Vec<Cidr>> = text.split(',').map(|one| network(one.trim())).collect();
    let mut networks = found.ok_or_else(|| refused("ExcludeOutboundCIDRs", text, problem))?;
    networks.retain(|network| network.family() == FAMILY);
    Ok(networks)
}

fn network(text: &str) -> Option<Cidr> {
    let Some((address, size)) = text.split_once('/') else { return text.parse().ok().map(Cidr::host) };
    let address: IpAddr = address.parse().ok()?;
    let prefix = match number(size) {
        Some(prefix) => prefix,
        None if address.is_ipv4() => prefix_of(size.parse().ok()?)?,
        None => return None,
    };
    Cidr::new(address, prefix).map(Cidr::network)
}

/// The prefix length of a mask; `None` if a one follows a zero.
fn prefix_of(mask: Ipv4Addr) -> Option<u8> {
    let ones = mask.to_bits().leading_ones();
    let is_whole = mask.to_bits().count_ones() == ones;
    u8::try_from(ones).ok().filter(|_| is_whole)
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Parses a number of decimal digits without a leading zero.
fn number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}

/// The users and services that the host's files name. Each file is read when the first name is looked up.
struct Names<'a> {
    host: &'a mut dyn Host,
    users: Option<String>,
    services: Option<String>,
}

impl Names<'_> {
    /// The number of a user.
    fn user(&mut self, name: &str) -> Result<Option<u32>, Error> {
        Ok(text(&mut self.users, self.host, "/etc/passwd")?.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some(name);
            fields.nth(1).filter(|_| is_it)?.parse().ok()
        }))
    }

    /// The port of a service.
    fn service(&mut self, name: &str) -> Result<Option<u16>, Error> {
        Ok(text(&mut self.services, self.host, "/etc/services")?.lines().find_map(|line| port_of(line, name)))
    }
}

fn text<'a>(read: &'a mut Option<String>, host: &mut dyn Host, path: &str) -> Result<&'a str, Error> {
    let text = match read.take() {
        Some(text) => text,
        None => host.files().administrators_file(Path::new(path))?.unwrap_or_default(),
    };
    Ok(read.insert(text))
}

/// `http 80/tcp www # a comment`
fn port_of(line: &str, name: &str) -> Option<u16> {
    let line = line.split('#').next()?;
    let mut words = line.split_whitespace();
    let official = words.next()?;
    let (port, of) = words.next()?.split_once('/')?;
    let is_it = of == PROTO.as_str() && (official == name || words.any(|alias| alias == name));
    port.parse().ok().filter(|_| is_it)
}
