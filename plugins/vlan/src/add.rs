//! ADD: finds the master, creates the link on it, and adds the addresses of the IPAM plugin.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::child::{self, Addressing, NewChild};
use cni_model::link::Link;
use cni_model::plan::{ChildKind, Ns};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;

use crate::KIND;
use crate::config::{Config, MAKING};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    journal.host().enter(request.netns().unwrap_or_default())?;
    let master = config.master.find(journal.host())?;
    let mtu = child::within_master(config.mtu, &master)?;
    refuse_down(&master)?;
    refuse_taken(&config, &master, journal.host())?;
    let new = NewChild { kind: ChildKind::Vlan { id: config.id }, mac: None, mtu };
    child::make(MAKING, &new, &config.master.of_link(&master), request, journal)?;
    let network = child::ask_ipam(&config.ipam, &config.dns, request, journal)?;
    child::finish(Addressing::Network(network, &[]), request, journal)
}

/// No link can be up on a master that is down.
fn refuse_down(Link { name, up, .. }: &Link) -> Result<(), Error> {
    if *up {
        return Ok(());
    }
    Err(fail!(
        TryAgain,
        "failed to {MAKING}: network is down: its master {name:?} is down",
        details: "\"ip link set {name} up\" sets it up"
    ))
}

/// A link in another namespace is not seen here. The kernel refuses a second one all the same.
fn refuse_taken(config: &Config, master: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let is_same = |link: &&Link| {
        link.peer == Some(master.index)
            && link.peer_netns.is_none()
            && link.child == Some(ChildKind::Vlan { id: config.id })
    };
    match beside(config.master.ns, host)?.iter().find(is_same) {
        Some(link) => {
            let (id, master, by) = (config.id, &master.name, &link.name);
            Err(fail!(
                Conflict,
                "failed to {MAKING}: file exists",
                details: "VLAN {id} of {master} has the link {by} beside it, and can have one alone"
            ))
        }
        None => Ok(()),
    }
}

/// The links of VLANs where the master is.
fn beside(ns: Ns, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    host.links(ns, LinkQuery::Kind(KIND))
}
