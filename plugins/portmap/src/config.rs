//! The keys of the portmap plugin, decoded and checked before anything is done.
//!
//! Values that cannot be used are refused here, with key, index and value; a valid [`Config`] can be carried out. The
//! words of `conditionsV4` and `conditionsV6` are the administrator's and are not changed, but words that do not fit
//! on one line of the back end's input are refused.

use std::net::IpAddr;

use cni_core::cidr::parse_ip;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_core::request::Request;
use cni_netfilter::iptables::Mark;
use cni_netfilter::{Backend, Proto};
use serde::Deserialize;

/// The bit of the packet mark that asks for masquerading, unless `markMasqBit` names another.
const MASQUERADE_BIT: u8 = 13;

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The back end that holds the rules.
    pub backend: Backend,
    /// The one that may hold them as well, since the configuration names none.
    pub other: Option<Backend>,
    /// Which connections get the host's address as their source, if any.
    pub masquerade: Option<Masquerade>,
    /// Conditions in the backend's language that a packet must match as well, for IPv4.
    pub conditions_v4: Vec<String>,
    /// Conditions in the backend's language that a packet must match as well, for IPv6.
    pub conditions_v6: Vec<String>,
    /// The ports.
    pub mappings: Vec<Mapping>,
}

/// The translation of source addresses, without which a container cannot reach itself, nor the host it,
/// by a host port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masquerade {
    /// The connections that are masqueraded.
    pub sources: Sources,
    /// How they are marked.
    pub marker: Marker,
}

/// The sources of the connections that are masqueraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Those from the container's own network and from the host's loopback.
    Local,
    All,
}

/// How connections are marked that are masqueraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// This plugin, with this mark.
    Own(Mark),
    /// A chain that another program keeps.
    External(ChainName),
}

/// One port of the host that leads to one port of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    pub host_port: u16,
    pub container_port: u16,
    /// Protocol.
    pub proto: Proto,
    /// The host's addresses of the mapping.
    pub listen: ListenAddress,
}

/// The host's addresses of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// On every address.
    Anywhere,
    /// On every address of a family.
    Family(Family),
    /// On one address.
    Address(IpAddr),
}

impl Mapping {
    /// Whether packets of a family can match the mapping.
    pub fn applies_to(&self, family: Family) -> bool {
        self.listen.takes(family)
    }
}

impl Config {
    /// Reads and checks every key. A host decides the back end if none is named, so either may take the other keys.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let of = |backend| request.decode::<Keys>()?.check(backend);
        of(Backend::Iptables).or_else(|error| of(Backend::Nftables).map_err(|_: Error| error))
    }

    /// Whether a mapping is for packets of a family.
    pub fn maps(&self, family: Family) -> bool {
        self.mappings.iter().any(|mapping| mapping.applies_to(family))
    }

    /// The conditions for a family.
    pub fn conditions(&self, family: Family) -> &[String] {
        match family {
            Family::V4 => &self.conditions_v4,
            Family::V6 => &self.conditions_v6,
        }
    }

    /// The keys with their values that only the back end can check.
    pub fn unchecked(&self) -> Vec<String> {
        let conditions = [("conditionsV4", &self.conditions_v4), ("conditionsV6", &self.conditions_v6)];
        let given = conditions.into_iter().filter(|(_, words)| !words.is_empty());
        let mut reported: Vec<String> = given.map(|(key, words)| format!("{key} is {words:?}")).collect();
        if let Some(Marker::External(chain)) = self.masquerade.as_ref().map(|masquerade| &masquerade.marker) {
            reported.push(format!("externalSetMarkChain is {:?}", chain.as_str()));
        }
        reported
    }
}

/// The keys as they are written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Keys {
    backend: Option<String>,
    snat: Option<bool>,
    masq_all: bool,
    mark_masq_bit: Option<i64>,
    external_set_mark_chain: Option<String>,
    #[serde(rename = "conditionsV4")]
    conditions_v4: Vec<String>,
    #[serde(rename = "conditionsV6")]
    conditions_v6: Vec<String>,
    runtime_config: RuntimeKeys,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuntimeKeys {
    port_mappings: Vec<PortMappingKeys>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortMappingKeys {
    host_port: i64,
    container_port: i64,
    protocol: String,
    #[serde(rename = "hostIP")]
    host_ip: String,
}

impl Keys {
    /// Whether a mapping may be for a family, before the mappings are checked.
    pub fn may_map(&self, family: Family) -> bool {
        let listens = |entry: &PortMappingKeys| {
            ListenAddress::parse(entry.host_ip.clone(), 0).map_or(true, |on| on.takes(family))
        };
        self.runtime_config.port_mappings.is_empty() || self.runtime_config.port_mappings.iter().any(listens)
    }

    /// Whether the configuration names the back end.
    pub const fn names_backend(&self) -> bool {
        self.backend.is_some()
    }

    /// Checks in the order of the reference. `automatic` keeps the rules unless a backend is named.
    pub fn check(self, automatic: Backend) -> Result<Config, Error> {
        let Keys {
            backend,
            snat,
            masq_all,
            mark_masq_bit,
            external_set_mark_chain,
            conditions_v4,
            conditions_v6,
            runtime_config: RuntimeKeys { port_mappings },
        } = self;
        let has_chain = external_set_mark_chain.is_some();
        let marker = Marker::choose(mark_masq_bit, external_set_mark_chain)?;
        let conditions = [("conditionsV4", &conditions_v4), ("conditionsV6", &conditions_v6)];
        let other = backend.is_none().then(|| automatic.other());
        let backend = choose_backend(backend, automatic)?;
        refuse_foreign(backend, has_chain, &conditions)?;
        conditions.iter().try_for_each(|(key, words)| refuse_unwritable(backend, key, words))?;
        let mappings = port_mappings.into_iter().enumerate().map(|(index, entry)| entry.check(index));
        let sources = if masq_all { Sources::All } else { Sources::Local };
        Ok(Config {
            backend,
            other,
            masquerade: snat.unwrap_or(true).then_some(Masquerade { sources, marker }),
            conditions_v4,
            conditions_v6,
            mappings: mappings.collect::<Result<_, _>>()?,
        })
    }
}

impl Marker {
    fn choose(bit: Option<i64>, external: Option<String>) -> Result<Self, Error> {
        match (bit, external) {
            (Some(bit), Some(chain)) => Err(fail!(
                InvalidConfig,
                "Cannot specify externalSetMarkChain and markMasqBit",
                details: "externalSetMarkChain is {chain:?}, markMasqBit is {bit}"
            )),
            (None, Some(name)) => match ChainName::parse(&name) {
                Ok(chain) => Ok(Self::External(chain)),
                Err(_) => Err(fail!(
                    InvalidConfig,
                    "invalid externalSetMarkChain {name:?}",
                    details: "an iptables chain has 1 to 28 characters, no blank or quote, and does not start with - or !"
                )),
            },
            (bit, None) => {
                let bit = bit.unwrap_or(MASQUERADE_BIT.into());
                let mark = u8::try_from(bit).ok().and_then(Mark::bit);
                let refused =
                    || fail!(InvalidConfig, "MasqMarkBit must be between 0 and 31", details: "markMasqBit is {bit}");
                mark.map(Self::Own).ok_or_else(refused)
            }
        }
    }
}

fn choose_backend(name: Option<String>, automatic: Backend) -> Result<Backend, Error> {
    match name.as_deref() {
        None => Ok(automatic),
        Some("iptables") => Ok(Backend::Iptables),
        Some("nftables") => Ok(Backend::Nftables),
        Some(name) => Err(fail!(
            InvalidConfig,
            "unrecognized backend {name:?}",
            details: "backend must be iptables or nftables, or not be given"
        )),
    }
}

/// The first word of a condition shows which language it is in: that of iptables starts with `-` or `!`.
fn refuse_foreign(backend: Backend, has_chain: bool, conditions: &[(&'static str, &Vec<String>)]) -> Result<(), Error> {
    let signed = |words: &[String]| words.first().is_some_and(|first| first.starts_with(['-', '!']));
    let plain = |words: &[String]| words.first().is_some_and(|first| !first.is_empty()) && !signed(words);
    let keys_of = |is_foreign: &dyn Fn(&[String]) -> bool| -> Vec<&'static str> {
        conditions.iter().filter(|(_, words)| is_foreign(words)).map(|(key, _)| *key).collect()
    };
    match backend {
        Backend::Iptables => match keys_of(&plain) {
            keys if keys.is_empty() => Ok(()),
            keys => {
                let details = "conditions of iptables start with - or !; those of nft, in both keys, need \"backend\": \"nftables\" \
                               and no externalSetMarkChain";
                let text = format!("contains nftables-specific options [{}]", keys.join(" "));
                Err(fail!(
                    InvalidConfig,
                    "iptables backend was requested but configuration {text}",
                    details: "{details}"
                ))
            }
        },
        Backend::Nftables => {
            let keys: Vec<_> =
                has_chain.then_some("externalSetMarkChain").into_iter().chain(keys_of(&signed)).collect();
            if keys.is_empty() {
                return Ok(());
            }
            let details = "conditions of nftables do not start with - or !, and it has no chain that sets marks; those of \
                           iptables need \"backend\": \"iptables\"";
            let text = format!("contains iptables-specific options [{}]", keys.join(" "));
            Err(fail!(InvalidConfig, "nftables backend was requested but configuration {text}", details: "{details}"))
        }
    }
}

/// An empty word means nothing, and some characters would end the command that the words are part of.
fn refuse_unwritable(backend: Backend, key: &'static str, words: &[String]) -> Result<(), Error> {
    let ends: &[char] = match backend {
        Backend::Iptables => &[],
        Backend::Nftables => &[';', '#'],
    };
    let is_bad = |word: &String| word.is_empty() || word.contains(char::is_control) || word.contains(ends);
    let bad = words.iter().position(is_bad);
    bad.map_or(Ok(()), |index| {
        let word = &words[index];
        let must = "must be a word, without control characters, for nftables without ; and #";
        Err(fail!(InvalidConfig, "invalid word {word:?} in {key}", details: "{key}[{index}] {must}"))
    })
}

impl PortMappingKeys {
    fn check(self, index: usize) -> Result<Mapping, Error> {
        let Self { host_port, container_port, protocol, host_ip } = self;
        let checked = |side: &str, number| {
            port(number).ok_or_else(|| {
                fail!(
                    InvalidConfig,
                    "Invalid {side} port number: {number}",
                    details: "runtimeConfig.portMappings[{index}].{side}Port must be between 1 and 65535"
                )
            })
        };
        let container_port = checked("container", container_port)?;
        let host_port = checked("host", host_port)?;
        let proto = Proto::parse(&protocol).filter(|proto| matches!(proto, Proto::Tcp | Proto::Udp | Proto::Sctp));
        let refused = || {
            fail!(
                InvalidConfig,
                "Invalid protocol: {protocol:?}",
                details: "runtimeConfig.portMappings[{index}].protocol must be tcp, udp or sctp"
            )
        };
        let proto = proto.ok_or_else(refused)?;
        Ok(Mapping { host_port, container_port, proto, listen: ListenAddress::parse(host_ip, index)? })
    }
}

fn port(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port > 0)
}

impl ListenAddress {
    /// Whether it is for packets of a family.
    fn takes(self, family: Family) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Family(only) => only == family,
            Self::Address(address) => Family::of(address) == family,
        }
    }

    fn parse(host_ip: String, index: usize) -> Result<Self, Error> {
        if host_ip.is_empty() {
            return Ok(Self::Anywhere);
        }
        match parse_ip(&host_ip) {
            Some(any) if any.is_unspecified() => Ok(Self::Family(Family::of(any))),
            Some(address) => Ok(Self::Address(address)),
            None => {
                let must = format!("runtimeConfig.portMappings[{index}].hostIP must be an IP address, or empty");
                Err(fail!(InvalidConfig, "Invalid host IP: {host_ip:?}", details: "{must}"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
