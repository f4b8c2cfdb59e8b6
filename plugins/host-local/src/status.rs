//! STATUS: whether an ADD could get its addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::ranges::RangeSet;
use crate::store::{MachineIdentity, Store, StoreError};

/// Why an ADD would fail.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// No lease can be written.
    #[error("leases cannot be written to {}", directory.display())]
    Directory {
        directory: PathBuf,
        #[source]
        source: StoreError,
    },
    /// All addresses are leased.
    #[error("no IP addresses available in range set: {set}")]
    Full { set: String, capacity: u128, directory: PathBuf },
}

impl Failure for StatusError {
    fn code(&self) -> Code {
        match self {
            Self::Directory { .. } => Code::NotAvailable,
            Self::Full { .. } => Code::LimitedConnectivity,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Directory { source, .. } => format!("{source}: {}", source.details()),
            Self::Full { capacity, directory, .. } => {
                format!("all {capacity} addresses are leased; see {}", directory.display())
            }
        }
    }
}

/// Verifies that leases can be written, and that each range set has a free address.
pub fn status(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::parse(request)?;
    let refused = |source: StoreError| match source {
        StoreError::Io { .. } => StatusError::Directory { directory: config.directory.clone(), source }.into(),
        StoreError::Locked { .. } => Error::from(source),
    };
    let Some(mut store) = Store::existing(&config.directory, MachineIdentity::this()).map_err(refused)? else {
        return Store::probe_creation(&config.directory).map_err(refused);
    };
    store.probe().map_err(refused)?;
    let taken: BTreeSet<IpAddr> = store.names()?.into_iter().map(|(address, _)| address).collect();
    let full: Vec<&RangeSet> = config.sets.iter().filter(|set| free(set, &taken) == 0).collect();
    if full.is_empty() {
        return Ok(());
    }
    let scan = store.scan()?;
    let dead = store.dead(&scan).into_iter().map(|lease| lease.address);
    let reclaimable: BTreeSet<IpAddr> = scan.unowned.keys().copied().chain(dead).collect();
    match full.into_iter().find(|set| !reclaimable.iter().any(|address| offers(set, *address))) {
        Some(set) => {
            let directory = config.directory.clone();
            Err(StatusError::Full { set: set.to_string(), capacity: set.capacity(), directory }.into())
        }
        None => Ok(()),
    }
}

fn free(set: &RangeSet, taken: &BTreeSet<IpAddr>) -> u128 {
    let taken = taken.iter().filter(|address| offers(set, **address)).count();
    set.capacity().saturating_sub(taken as u128)
}

fn offers(set: &RangeSet, address: IpAddr) -> bool {
    set.contains(address) && !set.is_gateway(address)
}
