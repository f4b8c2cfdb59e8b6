//! ADD: finds the master, creates the link on it, and adds the addresses of the IPAM plugin, if there is one.

use cni_core::error::Error;
use cni_core::mac::Mac;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::child::{self, Addressing, NewChild};
use cni_interface::naming;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, MacvlanMode};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::{Config, MAKING};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    journal.host().enter(request.netns().unwrap_or_default())?;
    let master = config.master.find(journal.host())?;
    let new = new_child(&config, &master, journal.host())?;
    child::make(MAKING, &new, &config.master.of_link(&master), request, journal)?;
    let addressing = match &config.ipam {
        Some(ipam) => Addressing::Network(child::ask_ipam(ipam, &config.dns, request, journal)?, child::NOTIFY),
        None => Addressing::None(config.dns),
    };
    child::finish(addressing, request, journal)
}

fn new_child(config: &Config, master: &Link, host: &mut dyn Host) -> Result<NewChild, Error> {
    let mtu = child::within_master(config.mtu, master)?;
    let kind = ChildKind::Macvlan { mode: config.mode, broadcast_queue: config.broadcast_queue };
    Ok(NewChild { kind, mac: mac(config, host), mtu })
}

/// The kernel's own choice would be changed by udev. In mode passthru it is that of the master.
fn mac(config: &Config, host: &mut dyn Host) -> Option<Mac> {
    let is_masters = config.mode == MacvlanMode::Passthru;
    config.mac.clone().or_else(|| (!is_masters).then(|| naming::random_mac(host)))
}
