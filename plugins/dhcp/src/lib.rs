//! The dhcp plugin: addresses from a DHCP server. The plugin asks a daemon, which is the same program. The daemon
//! talks to servers, and keeps leases as long as the containers live.
//!
//! This crate only decides: the effects of the daemon go through [`daemon::DaemonHost`].

#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr};

use cni_core::error::{Code, Error};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_model::plan::Step;
use cni_model::state_file::StateFile;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;

use config::{Config, socket_of};
use protocol::{LeaseRequest, Operation};
use record::LeaseKey;

mod ask;
pub mod client;
mod config;
pub mod daemon;
pub mod grant;
pub mod protocol;
pub mod record;
pub mod wire;

pub use config::leases_of;

/// The plugin.
pub struct Dhcp;

impl Plugin for Dhcp {
    fn kind(&self) -> &'static str {
        "dhcp"
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    /// Asks the daemon to lease an address through the container's interface, which the calling plugin has made.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let asked = lease_request(request, &config, journal.host())?;
        let undo = Step::TellDaemon(ask::call(&config.socket, Operation::Del { key: asked.key.clone() }));
        let answer = ask::ask(&ask::call(&config.socket, Operation::Add(asked)), journal.host());
        if answer.as_ref().map_or_else(|error| error.may_be_done(), |_| true) {
            journal.undo_first(undo);
        }
        let grant = ask::leased(&answer.map_err(ask::no_answer)?)?;
        Ok(grant.result(config.priority))
    }

    /// Asks the daemon to release the address. If there is no daemon, removes the daemon's file of the lease, so that a daemon that
    /// is started later does not continue with it.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let socket = socket_of(request)?;
        let key = LeaseKey::of(&request.attachment()?);
        if ask::to_do_if_there(&socket, Operation::Del { key: key.clone() }, host)? {
            return Ok(());
        }
        let file = StateFile::new(&leases_of(&socket), &key.file_name())?;
        if host.files().state_file(&file)?.is_some() {
            log::warn!("no daemon answers at {socket}, so the DHCP server keeps the lease of {key} until it ends");
            host.apply(&Step::RemoveStateFile { file, directories: Vec::new() })?;
        }
        Ok(())
    }

    /// Verifies that the address of the result is leased. If the daemon does not know the lease, it asks the server.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        let address = address_of_result(request)?;
        let request = lease_request(request, &config, host)?;
        ask::to_do(&config.socket, Operation::Check { request, address }, host)
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        ask::to_do(&config.socket, Operation::Status, host)
            .map_err(|error| Error::stated(Code::NotAvailable, error.to_string(), error.details()))
    }

    /// Asks the daemon to release the network's leases that belong to no valid attachment. Without a daemon there are none.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let socket = socket_of(request)?;
        let kept = valid.of_network(&request.network).map(|at| (at.container.to_string(), at.ifname.to_string()));
        let verb = Operation::Gc { network: request.network.to_string(), valid: kept.collect() };
        ask::to_do_if_there(&socket, verb, host).map(|_| ())
    }
}

/// The request for a lease, in the container's namespace, which is entered for it.
fn lease_request(request: &Request, config: &Config, host: &mut dyn Host) -> Result<LeaseRequest, Error> {
    let netns = request.netns().unwrap_or_default();
    host.enter(netns)?;
    let key = LeaseKey::of(&request.attachment()?);
    let Config { provided, requested, .. } = config.clone();
    Ok(LeaseRequest { key, netns: netns.to_owned(), provided, requested })
}

/// The address of the interface in the result of ADD; the only one, if the result names no interfaces.
fn address_of_result(request: &Request) -> Result<Option<Ipv4Addr>, Error> {
    let Some(result) = request.prev_result()? else { return Ok(None) };
    let name = request.attachment()?.ifname;
    let of_interface = result.ips_of(name.as_str()).map(|ip| ip.address.address());
    let mut addresses = of_interface.chain(result.ips.iter().map(|ip| ip.address.address()));
    Ok(addresses.find_map(|address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }))
}
