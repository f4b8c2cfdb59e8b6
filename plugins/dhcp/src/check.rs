//! CHECK: verifies that the address of the result is leased. If the daemon does not know the lease, it asks the
//! server.

use std::net::{IpAddr, Ipv4Addr};

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::add::asked;
use crate::ask;
use crate::config::Config;
use crate::protocol::Operation;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let address = address_of_result(request)?;
    let request = asked(request, &config, host)?;
    Ok(ask::to_do(&ask::call(&config.socket, Operation::Check { request, address }), host)?)
}

/// The address of the interface in the result of ADD; the only one, if the result names no interfaces.
pub fn address_of_result(request: &Request) -> Result<Option<Ipv4Addr>, Error> {
    let Some(result) = request.prev_result()? else { return Ok(None) };
    let name = request.attachment()?.ifname;
    let of_interface = result.ips_of(name.as_str()).map(|ip| ip.address.address());
    let mut addresses = of_interface.chain(result.ips.iter().map(|ip| ip.address.address()));
    Ok(addresses.find_map(|address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }))
}
