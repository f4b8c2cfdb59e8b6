//! Addresses that the runtime or the user requests: `CNI_ARGS`, `args.cni.ips`, `runtimeConfig.ips`.
//!
//! They are kept in that order, without duplicates. A prefix length after an address is ignored. Pure.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, parse_ip};
use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_plugin::ipam::RequestedKeys;

/// A requested address that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestedError {
    /// In `CNI_ARGS`.
    #[error("ARGS: error parsing value of pair {:?}: invalid IP address {text}", format!("IP={text}"))]
    Args { text: String },
    /// In the configuration.
    #[error("invalid IP address {text}")]
    Invalid { key: String, text: String },
    /// Empty or `null`, in the configuration.
    #[error("invalid IP address: none is given")]
    Empty { key: String },
}

impl Failure for RequestedError {
    fn code(&self) -> Code {
        match self {
            Self::Args { .. } => Code::InvalidEnvironment,
            Self::Invalid { .. } | Self::Empty { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Args { .. } => String::new(),
            Self::Invalid { key, .. } => key.clone(),
            Self::Empty { key } => format!("{key} is empty or null"),
        }
    }
}

/// Collects the requested addresses.
///
/// # Errors
/// [`RequestedError`] for the first that is not an address, and the errors of `CNI_ARGS`.
pub fn collect(request: &Request) -> Result<Vec<IpAddr>, Error> {
    let mut requested = Vec::new();
    if let Some(text) = request.args()?.ip {
        requested.push(parse_address(&text).ok_or(RequestedError::Args { text })?);
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

fn parse_listed(key: &str, text: &str) -> Result<IpAddr, RequestedError> {
    if text.is_empty() {
        return Err(RequestedError::Empty { key: key.to_owned() });
    }
    parse_address(text).ok_or_else(|| RequestedError::Invalid { key: key.to_owned(), text: text.to_owned() })
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains('/') { text.parse::<Cidr>().ok().map(Cidr::address) } else { parse_ip(text) }
}
