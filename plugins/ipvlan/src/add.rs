//! ADD: finds the master, creates the link on it, and adds the addresses of the IPAM plugin, or of the plugin before.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::child::{self, Addressing, MasterChoice, NewChild};
use cni_interface::network::{HostGateway, ResolvedNetwork};
use cni_model::link::Link;
use cni_model::plan::{ChildKind, IpvlanMode, Ns};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;

use crate::KIND;
use crate::config::{Config, MAKING};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let previous = request.prev_result()?;
    let addresses = Addresses::choose(&config, previous.as_ref())?;
    let choice = master_choice(&config.master, previous.as_ref())?;
    journal.host().enter(request.netns().unwrap_or_default())?;
    let master = choice.find(journal.host())?;
    refuse_other_mode(config.mode, choice.ns, &master, journal.host())?;
    warn_of_mtu(config.mtu, &master);
    let new = NewChild { kind: ChildKind::Ipvlan { mode: config.mode }, mac: None, mtu: config.mtu };
    child::make(MAKING, &new, &choice.of_link(&master), request, journal)?;
    let network = match addresses {
        Addresses::Ipam(plugin) => child::ask_ipam(plugin, &config.dns, request, journal)?,
        Addresses::Before(result) => {
            ResolvedNetwork::decide(result.clone(), HostGateway::None, child::INTERFACE, &config.dns)?
        }
    };
    child::finish(Addressing::Network(network, child::NOTIFY), request, journal)
}

/// Where the addresses come from.
enum Addresses<'a> {
    Ipam(&'a str),
    Before(&'a CniResult),
}

impl<'a> Addresses<'a> {
    fn choose(config: &'a Config, previous: Option<&'a CniResult>) -> Result<Self, Error> {
        match (&config.ipam, previous) {
            (Some(plugin), _) => Ok(Self::Ipam(plugin)),
            (None, Some(result)) if !result.ips.is_empty() => Ok(Self::Before(result)),
            (None, _) => Err(fail!(
                InvalidConfig,
                "ipvlan interface requires an IPAM configuration, or a prevResult with addresses"
            )),
        }
    }
}

/// Behind another plugin, the master is the one interface that it tells, unless the configuration names one.
fn master_choice(choice: &MasterChoice, previous: Option<&CniResult>) -> Result<MasterChoice, Error> {
    let (None, Some(result)) = (&choice.name, previous) else { return Ok(choice.clone()) };
    let names: Vec<String> = result.interfaces.iter().map(|interface| interface.name.clone()).collect();
    match &names[..] {
        [name] if !name.is_empty() => Ok(MasterChoice { name: Some(name.clone()), ..choice.clone() }),
        _ => Err(fail!(
            InvalidConfig,
            "chained master failure. PrevResult lacks a single named interface",
            details: "it has {names:?}, and master is not given"
        )),
    }
}

/// The kernel keeps the mode with the master, and lets every new link set it for all of them.
fn refuse_other_mode(wanted: IpvlanMode, ns: Ns, master: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let found = host.links(ns, LinkQuery::ChildOf { master: master.index, kind: KIND })?.pop();
    match found.and_then(|link| link.child) {
        Some(ChildKind::Ipvlan { mode: found }) if found != wanted => {
            let text = format!("{} has links in mode {found} already, which mode {wanted} would change", master.name);
            let details = "all ipvlan links of a master have the same mode";
            Err(fail!(Conflict, "failed to {MAKING}: {text}", details: "{details}"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The kernel takes it, as the reference does.
fn warn_of_mtu(mtu: Option<u32>, master: &Link) {
    if let Some(mtu) = mtu.filter(|mtu| *mtu > master.mtu) {
        log::warn!("mtu {mtu} is more than that of master {}, {}, which drops such packets", master.name, master.mtu);
    }
}
