//! ADD: finds the master, creates the link on it, and adds the addresses of the IPAM plugin.

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::child::{self, Addressing, NewChild};
use cni_model::link::Link;
use cni_model::plan::{ChildKind, Ns};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;

use crate::KIND;
use crate::config::{Config, MAKING};

/// The master cannot have the link.
#[derive(Debug, thiserror::Error)]
enum VlanMasterError {
    /// It is down, and then no link on it can be up.
    #[error("failed to {MAKING}: network is down: its master {name:?} is down")]
    Down { name: String },
    /// The VLAN has a link beside the master; a master has one for each VLAN.
    #[error("failed to {MAKING}: file exists")]
    Taken { master: String, id: u16, by: String },
}

impl Failure for VlanMasterError {
    fn code(&self) -> Code {
        match self {
            Self::Down { .. } => Code::TryAgain,
            Self::Taken { .. } => Code::Conflict,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Down { name } => format!("\"ip link set {name} up\" sets it up"),
            Self::Taken { master, id, by } => {
                format!("VLAN {id} of {master} has the link {by} beside it, and can have one alone")
            }
        }
    }
}

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

fn refuse_down(master: &Link) -> Result<(), VlanMasterError> {
    if master.up { Ok(()) } else { Err(VlanMasterError::Down { name: master.name.clone() }) }
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
            let (master, by) = (master.name.clone(), link.name.clone());
            Err(VlanMasterError::Taken { master, id: config.id, by }.into())
        }
        None => Ok(()),
    }
}

/// The links of VLANs where the master is.
fn beside(ns: Ns, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    host.links(ns, LinkQuery::Kind(KIND))
}
