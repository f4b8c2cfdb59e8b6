//! Who holds the addresses of a network: for the administrator's tool, which compares that with who lives.

use std::net::IpAddr;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::request::Request;

use crate::config;
use crate::store::{Machine, Store};

/// An address that is leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The address.
    pub address: IpAddr,
    /// The container, as the lease names it.
    pub container: String,
    /// Its interface, which very old releases do not name.
    pub ifname: Option<String>,
    /// When the lease was written, as time since 1970.
    pub written: Duration,
}

/// Every lease of the request's network, in no order. It changes nothing.
///
/// # Errors
/// When the leases cannot be read.
pub fn holders(request: &Request) -> Result<Vec<Holder>, Error> {
    let directory = config::directory(request)?;
    let Some(mut store) = Store::reading(&directory, Machine::this())? else { return Ok(Vec::new()) };
    let leases = store.scan()?.leases.into_iter();
    Ok(leases
        .map(|lease| Holder {
            address: lease.address,
            written: lease.written(),
            container: lease.owner.container,
            ifname: lease.owner.ifname,
        })
        .collect())
}
