//! The keys of the dhcp plugin, checked before the daemon is asked.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_plugin::ipam::no_section;
use serde::Deserialize;

use crate::daemon::flags::DEFAULT_SOCKET;
use crate::wire::code;

/// The longest value of an option.
const LONGEST: usize = 255;

/// A configuration that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The path of the daemon's socket.
    pub socket: String,
    /// Options that are sent to servers.
    pub provided: Vec<(u8, Vec<u8>)>,
    /// Options that are asked of them.
    pub requested: Vec<u8>,
    /// The metric of all routes; none of their own if 0.
    pub priority: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    ipam: Option<DhcpIpamKeys>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DhcpIpamKeys {
    daemon_socket_path: String,
    provide: Vec<Provided>,
    request: Vec<Requested>,
    priority: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Provided {
    option: String,
    value: String,
    from_arg: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Requested {
    option: String,
    skip_default: bool,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let ipam = request.decode::<Keys>()?.ipam;
        let ipam = ipam.ok_or_else(no_section)?;
        let args = arguments(request);
        let provided = ipam.provide.iter().map(|entry| provided(entry, &args)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            socket: socket(ipam.daemon_socket_path)?,
            provided: provided.into_iter().flatten().collect(),
            requested: requested(&ipam.request)?,
            priority: ipam.priority,
        })
    }
}

/// The path of the daemon's socket, even if the rest of the configuration is invalid: for DEL.
pub fn socket_of(request: &Request) -> Result<String, Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct OnlySocket {
        daemon_socket_path: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OnlyIpam {
        ipam: Option<OnlySocket>,
    }
    let OnlyIpam { ipam } = request.decode()?;
    socket(ipam.unwrap_or_default().daemon_socket_path)
}

/// The directory in which the daemon of a socket keeps its leases: `/run/cni/dhcp` for `/run/cni/dhcp.sock`.
pub fn leases_of(socket: &str) -> String {
    socket.strip_suffix(".sock").map_or_else(|| format!("{socket}.leases"), str::to_owned)
}

fn socket(path: String) -> Result<String, Error> {
    match path.as_str() {
        "" => Ok(DEFAULT_SOCKET.to_owned()),
        given if given.starts_with('/') && !given.contains('\0') => Ok(path),
        _ => Err(fail!(InvalidConfig, "invalid daemonSocketPath {path:?} (must be an absolute path)")),
    }
}

/// `CNI_ARGS`; elements that are not pairs are ignored, as in the reference.
fn arguments(request: &Request) -> BTreeMap<String, String> {
    let found = request.variables().find(|(name, _)| *name == "CNI_ARGS");
    let text = found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default();
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The code and the value of an option; `None` if it has no value. A value of `CNI_ARGS` replaces that of the
/// configuration.
fn provided(entry: &Provided, args: &BTreeMap<String, String>) -> Result<Option<(u8, Vec<u8>)>, Error> {
    let Provided { option, value, from_arg } = entry;
    let code = option_code(option)?;
    let of_args = args.get(from_arg).filter(|_| !from_arg.is_empty());
    let of = of_args.map_or_else(String::new, |_| format!(" from CNI_ARGS {from_arg:?}"));
    let value = of_args.unwrap_or(value);
    match value.len() {
        0 => Ok(None),
        1..=LONGEST => Ok(Some((code, value.clone().into_bytes()))),
        _ => Err(fail!(InvalidConfig, "value too long for option {option:?}{of}: {value:?}")),
    }
}

/// The list of option 55: the configured options come first. Unless one of them says otherwise, these follow: router
/// and mask, as in the reference, and the options of the result: name servers, domains and the MTU.
fn requested(entries: &[Requested]) -> Result<Vec<u8>, Error> {
    const DEFAULTS: [u8; 6] = [
        code::ROUTER,
        code::SUBNET_MASK,
        code::DOMAIN_NAME_SERVER,
        code::DOMAIN_NAME,
        code::INTERFACE_MTU,
        code::DOMAIN_SEARCH,
    ];
    const NOTHING: [u8; 4] = [code::SUBNET_MASK, code::ROUTER, code::DOMAIN_NAME, code::DOMAIN_NAME_SERVER];
    let mut list = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.option.is_empty()) {
        list.push(option_code(&entry.option)?);
    }
    let skips = entries.iter().any(|entry| entry.skip_default);
    let more = match (skips, list.is_empty()) {
        (false, _) => &DEFAULTS[..],
        (true, true) => &NOTHING,
        (true, false) => &[],
    };
    for code in more {
        if !list.contains(code) {
            list.push(*code);
        }
    }
    Ok(list)
}

fn option_code(option: &str) -> Result<u8, Error> {
    let known = match option {
        "dhcp-client-identifier" => Some(code::CLIENT_IDENTIFIER),
        "subnet-mask" => Some(code::SUBNET_MASK),
        "routers" => Some(code::ROUTER),
        "host-name" => Some(code::HOST_NAME),
        "user-class" => Some(code::USER_CLASS),
        "vendor-class-identifier" => Some(code::VENDOR_CLASS),
        // Without the sign that Rust takes and Go does not.
        number if number.starts_with('+') => None,
        number => number.parse().ok().filter(|code| (1..code::END).contains(code)),
    };
    let text = "neither a known name nor a number from 1 to 254";
    known.ok_or_else(|| fail!(InvalidConfig, "Can not parse option {option:?}: {text}"))
}

#[cfg(test)]
mod tests;
