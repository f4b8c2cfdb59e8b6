//! CHECK: verifies that `prevResult` has every configured address, with its gateway.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_plugin::host::Host;

use crate::config::{Config, FixedAddress};

/// Compares the configured addresses with `prevResult`.
///
/// # Errors
/// That of the configuration, or of the first address that differs.
pub fn check(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let result = request.prev_result()?.ok_or_else(|| fail!(InvalidConfig, "Required prevResult missing"))?;
    let ifname = request.attachment()?.ifname;
    config.addresses.iter().try_for_each(|address| find(address, &result, ifname.as_str()))
}

fn find(&FixedAddress { cidr, gateway }: &FixedAddress, result: &CniResult, ifname: &str) -> Result<(), Error> {
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
