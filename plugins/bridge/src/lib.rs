//! The bridge plugin: joins a container to a bridge by a veth, with addresses from an IPAM plugin, the
//! bridge as gateway, and a masquerade for what leaves the network.
//!
//! This file asks and does; what is wanted stands in [`config`], what is decided in [`plan`], and what
//! CHECK looks at in [`check`].

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::request::{Command, Request};
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_interface::leftovers;
use cni_interface::naming::{self, TakenError};
use cni_interface::network::Network;
use cni_interface::result::layer_two;
use cni_interface::{ipam, masquerade, verify};
use cni_netfilter::Backend;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::{Ns, Step};
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;

pub mod check;
pub mod config;
#[cfg(test)]
mod fixtures;
mod gc;
pub mod plan;
mod repair;
pub mod spoof;
pub mod vlan;

use config::{Config, Leftovers};
use plan::{Facts, Names};

/// The plugin.
pub struct Bridge;

impl Plugin for Bridge {
    fn kind(&self) -> &'static str {
        "bridge"
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?.for_add()?;
        let at = request.attachment()?;
        let netns = request.netns().unwrap_or_default();
        journal.host().enter(netns)?;
        let mut facts = observe(&config, &at, journal.host())?;
        let network = match &config.ipam {
            Some(ipam) => {
                let answer = journal.delegate_add(ipam, request)?;
                Some(Network::decide(answer, config.gateway, plan::CONTAINER, &config.dns)?)
            }
            None => None,
        };
        if let Some(network) = network.as_ref().filter(|_| config.masquerade) {
            let addresses: Vec<Cidr> = network.addresses().collect();
            facts.masquerade_backend = masquerade::choose(config.masquerade_backend, &addresses, journal.host())?;
        }
        journal.apply(&plan::add(&config, &at, network.as_ref(), &facts)?)?;
        warn_of_unfiltered(&config, &facts);
        let result = network.map_or_else(|| layer_two(&config.dns), |Network { result, .. }| result);
        Ok(CniResult { interfaces: interfaces(&config, &at, &facts.names, netns, journal.host())?, ..result })
    }

    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let leftovers = Leftovers::load(request)?;
        let at = request.attachment()?;
        let mut removal = Removal::new(host);
        let sandbox = removal.attempt(|host| leftovers::observe_sandbox(request, &at, host)).unwrap_or_default();
        if leftovers.masquerade {
            let unwanted = removal.attempt(|host| masquerade::removals(request, &at, &sandbox, host));
            unwanted.into_iter().flatten().for_each(|unwanted| removal.step(&Step::remove_rules(unwanted)));
        }
        if sandbox.link.is_some() {
            removal.step(&Step::RemoveLink { ns: Ns::Container, name: at.ifname.clone() });
        }
        if !sandbox.reached {
            removal.attempt(|host| remove_by_alias(&at, host));
        }
        if leftovers.spoof_check {
            removal.step(&Step::remove_rules(spoof::remove(&at)));
        }
        removal.attempt(|host| ipam::delegate(leftovers.ipam.as_deref(), Command::Del, host));
        removal.finish()
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        host.enter(request.netns().unwrap_or_default())?;
        ipam::delegate(config.ipam.as_deref(), Command::Check, host)?;
        check::check(&config, request, host)
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        ipam::delegate(config::ipam_type(request)?.as_deref(), Command::Status, host)
    }

    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        gc::gc(request, valid, host)
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        repair::find_missing(request, host)
    }
}

fn observe(config: &Config, at: &Attachment, host: &mut dyn Host) -> Result<Facts, Error> {
    let names = choose_names(host)?;
    naming::refuse_pattern("make veth pair", &at.ifname)?;
    if host.link(Ns::Container, &at.ifname)?.is_some() {
        return Err(TakenError::Veth { name: at.ifname.clone(), peer: names.host }.into());
    }
    let bridge = host.link(Ns::Host, &config.bridge)?;
    let gateway = match &config.vlans.gateway {
        Some(link) => host.link(Ns::Host, &link.name)?,
        None => bridge.clone(),
    };
    let gateway_addresses = match &gateway {
        Some(link) => host.addresses(Ns::Host, Some(link.index), None)?,
        None => Vec::new(),
    };
    Ok(Facts { bridge, gateway_addresses, masquerade_backend: Backend::Iptables, names })
}

/// A bridge that is there is not changed, as in the reference.
fn warn_of_unfiltered(config: &Config, facts: &Facts) {
    if config.vlans.filtering && facts.bridge.as_ref().is_some_and(|link| link.vlan_filtering != Some(true)) {
        let bridge = &config.bridge;
        log::warn!(
            "bridge {bridge} does not filter VLANs, so that they separate nothing: it was made without vlan and \
             vlanTrunk; \"ip link set {bridge} type bridge vlan_filtering 1\" changes that for all its ports"
        );
    }
}

fn choose_names(host: &mut dyn Host) -> Result<Names, Error> {
    Ok(Names {
        host: naming::random_name(host)?,
        host_mac: naming::random_mac(host)?,
        container_mac: naming::random_mac(host)?,
        bridge_mac: naming::random_mac(host)?,
        vlan_port: naming::random_name(host)?,
        vlan_mac: naming::random_mac(host)?,
        vlan_port_mac: naming::random_mac(host)?,
    })
}

/// Reads back what was made: another ADD may have made the bridge in the meantime.
fn interfaces(
    config: &Config,
    at: &Attachment,
    names: &Names,
    netns: &str,
    host: &mut dyn Host,
) -> Result<Vec<cni_core::result::Interface>, Error> {
    let bridge = verify::present(Ns::Host, &config.bridge, host)?;
    let host_end = verify::present(Ns::Host, &names.host, host)?;
    let container_end = verify::present(Ns::Container, &at.ifname, host)?;
    let vlan_link =
        config.vlans.gateway.as_ref().map(|link| verify::present(Ns::Host, &link.name, host)).transpose()?;
    Ok(plan::interfaces(&bridge, &host_end, &container_end, netns, vlan_link.as_ref()))
}

/// The runtime may have lost the namespace while it lives.
fn remove_by_alias(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let links = leftovers::links_of(at, host)?;
    let mut removal = Removal::new(host);
    for link in links {
        let name = IfName::parse(&link.name)?;
        removal.step(&Step::RemoveLink { ns: Ns::Host, name });
    }
    removal.finish()
}
