//! ADD: an address from each range set, with the configured routes and the name resolution of a file.

use std::path::Path;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_plugin::journal::Journal;

use crate::allocate::Allocation;
use crate::config::Config;
use crate::presence::CurrentNamespace;
use crate::store::{MachineIdentity, Store, StoreError};
use crate::{requested, resolv_conf};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let requested = requested::collect(request)?;
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

/// The reference reads lines of up to 64 KiB.
const MOST_OF_RESOLV_CONF: u64 = 1024 * 1024;

fn read_dns(path: &Path) -> Result<Dns, Error> {
    let content = cni_files::read_at_most(MOST_OF_RESOLV_CONF, path).map_err(StoreError::from)?;
    let (parsed, path) = (resolv_conf::parse(&content), path.display());
    parsed.map_err(|problem| fail!(Io, "{problem}", details: "{path}"))
}
