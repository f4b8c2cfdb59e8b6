//! The host-local IPAM plugin: addresses from ranges, kept as files.
//!
//! `config`, `requested`, `ranges` and `resolv_conf` are pure; `store` alone touches the disk. `allocate` is
//! ADD, between the two; `release` is DEL and GC.

use std::path::Path;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

mod allocate;
mod check;
mod config;
mod presence;
mod ranges;
mod release;
mod requested;
mod resolv_conf;
mod status;
mod store;

#[cfg(test)]
#[path = "../tests/common/request.rs"]
mod fake_request;

use allocate::Allocation;
use config::Config;
use presence::Presence;
use store::{Machine, Store, StoreError};

/// The plugin.
pub struct HostLocal;

impl Plugin for HostLocal {
    fn kind(&self) -> &'static str {
        "host-local"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let requested = requested::collect(request)?;
        let config = Config::parse(request)?;
        let dns = config.resolv_conf.as_deref().map_or_else(|| Ok(Dns::default()), read_dns)?;
        let attachment = request.attachment()?;
        let presence = Presence::observe(journal.host(), request.netns())?;
        let mut store = Store::create(&config.directory, Machine::this())?;
        let (ips, done) = Allocation::new(&mut store, presence, &attachment).run(&config.sets, requested)?;
        drop(store);
        let directory = config.directory;
        journal.on_failure(Box::new(move || match Store::existing(&directory, Machine::this())? {
            Some(mut store) => Ok(store.undo(&done)?),
            None => Ok(()),
        }));
        Ok(CniResult { interfaces: Vec::new(), ips, routes: config.routes, dns })
    }

    fn del(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        release::del(&config::directory(request)?, &request.attachment()?)
    }

    fn check(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::parse(request)?;
        requested::collect(request)?;
        check::check(&config, &request.attachment()?, request.prev_result()?.as_ref())
    }

    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        status::status(&Config::parse(request)?)
    }

    fn gc(&self, request: &Request, valid: &ValidAttachments, _host: &mut dyn Host) -> Result<(), Error> {
        release::gc(&config::directory(request)?, valid)
    }
}

/// A `resolv.conf` with a line that is too long.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
struct ResolvConfError {
    path: String,
    problem: resolv_conf::LineTooLong,
}

impl Failure for ResolvConfError {
    fn code(&self) -> Code {
        Code::Io
    }

    fn details(&self) -> String {
        self.path.clone()
    }
}

fn read_dns(path: &Path) -> Result<Dns, Error> {
    let content = cni_files::read(path).map_err(StoreError::from)?;
    let failed = |problem| ResolvConfError { path: path.display().to_string(), problem };
    Ok(resolv_conf::parse(&content).map_err(failed)?)
}
