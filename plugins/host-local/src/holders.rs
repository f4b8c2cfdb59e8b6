//! Lists the addresses of a network and their holders, for the administrator's tool.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::request::Request;

use crate::config::{self, Config};
use crate::ranges::{Range, RangeSet};
use crate::store::{MachineIdentity, Store};

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
pub fn holders(request: &Request) -> Result<Vec<Holder>, Error> {
    let directory = config::directory(request)?;
    let Some(mut store) = Store::reading(&directory, MachineIdentity::this())? else { return Ok(Vec::new()) };
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

/// The directory of the leases of the request's network. It may be missing.
///
/// # Errors
/// When the configuration names none.
pub fn lease_directory(request: &Request) -> Result<PathBuf, Error> {
    Ok(config::directory(request)?)
}

/// The ranges of the request's configuration, in its order.
///
/// # Errors
/// When the configuration is not valid.
pub fn ranges(request: &Request) -> Result<Vec<Range>, Error> {
    Ok(Config::load(request)?.sets.iter().flat_map(|set| set.ranges().to_vec()).collect())
}

/// The range sets of the request's configuration that have no address for another container.
///
/// # Errors
/// When the configuration is not valid, or the leases cannot be read.
pub fn full_sets(request: &Request) -> Result<Vec<String>, Error> {
    let Config { directory, sets, .. } = Config::load(request)?;
    let Some(mut store) = Store::reading(&directory, MachineIdentity::this())? else { return Ok(Vec::new()) };
    let scan = store.scan()?;
    let dead: BTreeSet<IpAddr> = store.dead(&scan).into_iter().map(|lease| lease.address).collect();
    let leased: Vec<IpAddr> = scan.leases.iter().map(|lease| lease.address).filter(|one| !dead.contains(one)).collect();
    let is_full = |set: &&RangeSet| {
        let taken = leased.iter().filter(|address| set.contains(**address) && !set.is_gateway(**address));
        taken.count() as u128 >= set.capacity()
    };
    Ok(sets.iter().filter(is_full).map(ToString::to_string).collect())
}
