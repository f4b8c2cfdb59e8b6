//! CHECK: verifies that `prevResult` has every configured address, with its gateway.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_plugin::host::Host;

use crate::config::{Config, FixedAddress};

/// A result that is not what the configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The runtime did not send the result of ADD.
    #[error("Required prevResult missing")]
    NoPrevResult,
    /// An address is not in the result.
    #[error("static: Failed to find addr {address} on interface {ifname}")]
    Address { address: Cidr, ifname: String },
    /// An address has another gateway, or none.
    #[error("static: Failed to match addr {gateway} on interface {ifname}")]
    Gateway { address: Cidr, gateway: IpAddr, ifname: String },
}

impl Failure for CheckError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult => Code::InvalidConfig,
            Self::Address { .. } | Self::Gateway { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoPrevResult => String::new(),
            Self::Address { address, .. } => format!("{address} is configured, and not in prevResult"),
            Self::Gateway { address, .. } => format!("the gateway of {address} in prevResult is another one"),
        }
    }
}

/// Compares the configured addresses with `prevResult`.
///
/// # Errors
/// That of the configuration, or [`CheckError`] for the first address that differs.
pub fn check(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let result = request.prev_result()?.ok_or(CheckError::NoPrevResult)?;
    let ifname = request.attachment()?.ifname.to_string();
    Ok(config.addresses.iter().try_for_each(|address| find(address, &result, &ifname))?)
}

fn find(&FixedAddress { cidr, gateway }: &FixedAddress, result: &CniResult, ifname: &str) -> Result<(), CheckError> {
    let ifname = || ifname.to_owned();
    let mut found = result.ips.iter().filter(|ip| ip.address == cidr).peekable();
    if found.peek().is_none() {
        return Err(CheckError::Address { address: cidr, ifname: ifname() });
    }
    match gateway {
        Some(gateway) if !found.any(|ip| ip.gateway == Some(gateway)) => {
            Err(CheckError::Gateway { address: cidr, gateway, ifname: ifname() })
        }
        Some(_) | None => Ok(()),
    }
}
