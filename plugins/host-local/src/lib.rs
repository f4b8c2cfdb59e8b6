//! The host-local IPAM plugin: addresses from ranges, kept as files.
//!
//! `config.rs` and `ranges.rs` read the input, `presence.rs` tells whether a container still uses its address,
//! `allocate.rs` chooses addresses, and `store.rs` keeps the leases; nothing else changes files.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use cni_core::error::{Code, Error, Failure as _, Failures};
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

use allocate::Allocation;
use config::{Config, parse_resolv_conf, requested_addresses};
use presence::CurrentNamespace;
use ranges::RangeSet;
use store::{MachineIdentity, Store, StoreError, is_held};

mod allocate;
mod config;
mod presence;
mod ranges;
mod store;

pub use config::directory as lease_directory;
pub use ranges::Range;

/// The plugin.
pub struct HostLocal;

impl Plugin for HostLocal {
    fn kind(&self) -> &'static str {
        "host-local"
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    /// Leases an address from each range set, and returns them with the configured routes and the name resolution of a file.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let requested = requested_addresses(request)?;
        let config = Config::load(request)?;
        let dns = config.resolv_conf.as_deref().map_or_else(|| Ok(Dns::default()), read_dns)?;
        let attachment = request.attachment()?;
        let mut presence = CurrentNamespace::observe(journal.host(), request.netns(), &attachment)?;
        let lease = |presence: &mut CurrentNamespace<'_>| {
            let mut store = Store::create(&config.directory, MachineIdentity::this())?;
            Allocation::new(&mut store, presence, &attachment).run(&config.sets, requested.clone())
        };
        let (ips, done) = match lease(&mut presence) {
            Err(_) if presence.await_departure() => lease(&mut presence)?,
            leased => leased?,
        };
        let directory = config.directory;
        journal.on_failure(Box::new(move || match Store::existing(&directory, MachineIdentity::this())? {
            Some(mut store) => Ok(store.undo(&done)?),
            None => Ok(()),
        }));
        Ok(CniResult { interfaces: Vec::new(), ips, routes: config.routes, dns })
    }

    /// Releases the leases of an attachment. It creates no directory, and a missing lease is success.
    fn del(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        let directory = lease_directory(request)?;
        let attachment = request.attachment()?;
        let Some(mut store) = Store::existing(&directory, MachineIdentity::this())? else { return Ok(()) };
        let leases = store.leases_of_attachment(&attachment)?;
        let mut failures = Failures::default();
        for lease in &leases {
            failures.keep(store.release(lease));
        }
        failures.into_result()
    }

    /// Verifies that the attachment has a lease, and one for each address of the result that is in the ranges. If the file of one of these
    /// addresses does not show that, looks through all leases of the container. Changes nothing, not even the times of a file.
    fn check(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        requested_addresses(request)?;
        let attachment = request.attachment()?;
        let result = request.prev_result()?;
        let addresses = result.iter().flat_map(|result| result.ips_of(attachment.ifname.as_str()));
        let mut ours: Vec<IpAddr> = addresses.map(|ip| ip.address.address()).collect();
        ours.retain(|address| config.sets.iter().any(|set| set.contains(*address)));
        if !ours.is_empty() && ours.iter().all(|address| is_held(&config.directory, *address, &attachment)) {
            return Ok(());
        }
        let store = Store::reading(&config.directory, MachineIdentity::this())?;
        let leases = store.map(|mut store| store.leases_of_attachment(&attachment)).transpose()?.unwrap_or_default();
        let is_missing = |address: &IpAddr| leases.iter().all(|lease| lease.address != *address);
        let details = match ours.into_iter().find(is_missing) {
            _ if leases.is_empty() => String::new(),
            Some(address) => format!("{address} of prevResult is not leased to it"),
            None => return Ok(()),
        };
        let text = format!("Failed to find address added by container {}", attachment.container);
        Err(fail!(CheckFailed, "host-local: {text}", details: "{details}"))
    }

    /// Verifies that leases can be written. A full range set passes: a runtime reports the network as not ready otherwise, and Kubernetes
    /// evicts what runs on the node. `doctor` and `metrics` show full range sets.
    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        let refused = |source: StoreError| match source {
            StoreError::Io { .. } => {
                let text = format!("leases cannot be written to {}", config.directory.display());
                Error::stated(Code::NotAvailable, text, format!("{source}: {}", source.details()))
            }
            StoreError::Locked { .. } => Error::from(source),
        };
        match Store::existing(&config.directory, MachineIdentity::this()).map_err(refused)? {
            Some(mut store) => store.probe().map_err(refused),
            None => Store::probe_creation(&config.directory).map_err(refused),
        }
    }

    /// Releases leases that belong to no valid attachment, and removes files that name no owner. It creates no directory, and a missing lease
    /// is success.
    fn gc(&self, request: &Request, valid: &ValidAttachments, _host: &mut dyn Host) -> Result<(), Error> {
        let directory = lease_directory(request)?;
        let Some(mut store) = Store::existing(&directory, MachineIdentity::this())? else { return Ok(()) };
        let scan = store.scan()?;
        let mut failures = Failures::default();
        for lease in
            scan.leases.iter().filter(|lease| !valid.contains(&lease.owner.container, lease.owner.ifname.as_deref()))
        {
            failures.keep(store.release(lease));
        }
        for name in scan.unowned.values() {
            failures.keep(store.remove_unowned(name));
        }
        failures.into_result()
    }
}

/// The reference reads lines of up to 64 KiB.
const MOST_OF_RESOLV_CONF: u64 = 1024 * 1024;

fn read_dns(path: &Path) -> Result<Dns, Error> {
    let content = cni_files::read_at_most(MOST_OF_RESOLV_CONF, path).map_err(StoreError::from)?;
    let path = path.display();
    parse_resolv_conf(&content).ok_or_else(|| fail!(Io, "a line is longer than 64 KiB", details: "{path}"))
}

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
    let directory = lease_directory(request)?;
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
