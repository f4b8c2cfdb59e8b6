//! Parses the argument that Nomad sends: which connections are redirected, and where to. It is plain JSON, with Go's
//! names of the fields.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use cni_core::cidr::Cidr;
use cni_core::error::{Error, Failure as _};
use cni_core::fail;
use cni_core::json::{Json, JsonError};
use cni_netfilter::iptables::UidRange;
use cni_plugin::host::Host;
use serde::Deserialize;

use crate::entry::{self, EntryError, Ports};
use crate::names::Names;

/// The name of the argument in `CNI_ARGS`. It holds JSON.
pub const CONFIG: &str = "CONSUL_IPTABLES_CONFIG";

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
    /// Ports of the container that are reached directly.
    pub direct_inbound: Vec<Ports>,
    /// Ports elsewhere that the container reaches directly.
    pub direct_outbound: Vec<Ports>,
    /// Networks that the container reaches directly.
    pub direct_networks: Vec<Cidr>,
    /// The users whose connections are direct.
    pub direct_users: Vec<UidRange>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    #[serde(rename = "ConsulDNSIP")]
    dns_address: String,
    #[serde(rename = "ConsulDNSPort")]
    dns_port: i64,
    #[serde(rename = "ProxyUserID")]
    proxy_user: String,
    #[serde(rename = "ProxyInboundPort")]
    inbound: i64,
    #[serde(rename = "ProxyOutboundPort")]
    outbound: i64,
    #[serde(rename = "ExcludeInboundPorts")]
    inbound_ports: Vec<String>,
    #[serde(rename = "ExcludeOutboundPorts")]
    outbound_ports: Vec<String>,
    #[serde(rename = "ExcludeOutboundCIDRs")]
    networks: Vec<String>,
    #[serde(rename = "ExcludeUIDs")]
    users: Vec<String>,
    /// Nomad's path of the namespace; `CNI_NETNS` is used instead.
    #[serde(rename = "NetNS")]
    _netns: String,
    /// An object of the sender's program, which cannot be sent in JSON.
    #[serde(rename = "IptablesProvider")]
    _provider: (),
}

/// Reads the argument, and looks names up on the host.
pub fn parse(text: &str, host: &mut dyn Host) -> Result<Redirection, Error> {
    let undecoded = |error: JsonError| {
        Error::stated(error.code(), format!("could not unmarshal CNI args: {CONFIG}"), error.to_string())
    };
    let json = Json::parse(text.as_bytes()).map_err(undecoded)?;
    let keys: Keys = if json == Json::Null { Keys::default() } else { json.decode().map_err(undecoded)? };
    keys.check(&mut Names::new(host))
}

impl Keys {
    fn check(self, names: &mut Names<'_>) -> Result<Redirection, Error> {
        let dns = self.dns()?;
        if self.proxy_user.is_empty() {
            return Err(required("ProxyUserID"));
        }
        let proxy = explained("ProxyUserID", &self.proxy_user, entry::users(&self.proxy_user, names)?)?;
        if self.inbound == 0 {
            return Err(required("ProxyInboundPort"));
        }
        let outbound = if self.outbound == 0 { OUTBOUND_PORT.into() } else { self.outbound };
        Ok(Redirection {
            dns,
            proxy,
            inbound: port("ProxyInboundPort", self.inbound, 1)?,
            outbound: port("ProxyOutboundPort", outbound, 1)?,
            direct_inbound: ports("ExcludeInboundPorts", &self.inbound_ports, names)?,
            direct_outbound: ports("ExcludeOutboundPorts", &self.outbound_ports, names)?,
            direct_networks: networks("ExcludeOutboundCIDRs", &self.networks)?,
            direct_users: users("ExcludeUIDs", &self.users, names)?,
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

fn refused(key: &str, value: &str, problem: impl Display) -> Error {
    fail!(InvalidEnvironment, "invalid {key} {value:?}: {problem}", details: "in {CONFIG} of CNI_ARGS")
}

fn port(key: &str, value: i64, least: u16) -> Result<u16, Error> {
    let found = u16::try_from(value).ok().filter(|port| *port >= least);
    found.ok_or_else(|| {
        let text = format!("invalid {key} {value} (must be between {least} and 65535)");
        fail!(InvalidEnvironment, "{text}", details: "in {CONFIG} of CNI_ARGS")
    })
}

fn explained<T>(key: &str, value: &str, found: Result<T, EntryError>) -> Result<T, Error> {
    found.map_err(|problem| refused(key, value, problem))
}

fn ports(key: &'static str, values: &[String], names: &mut Names<'_>) -> Result<Vec<Ports>, Error> {
    values.iter().map(|value| explained(key, value, entry::ports(value, names)?)).collect()
}

fn users(key: &'static str, values: &[String], names: &mut Names<'_>) -> Result<Vec<UidRange>, Error> {
    values.iter().map(|value| explained(key, value, entry::users(value, names)?)).collect()
}

/// Those of IPv6 need no rule, since nothing of IPv6 is redirected.
fn networks(key: &'static str, values: &[String]) -> Result<Vec<Cidr>, Error> {
    let mut networks = Vec::new();
    for value in values {
        networks.extend(explained(key, value, entry::networks(value))?);
    }
    networks.retain(|network| network.family() == crate::entry::FAMILY);
    Ok(networks)
}
