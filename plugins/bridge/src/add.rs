//! ADD: asks for facts and addresses, makes a plan, and applies it. An IPAM plugin that asks a server through the
//! interface is called after the interface is created.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::network::ResolvedNetwork;
use cni_interface::result::layer_two;
use cni_interface::{ipam, masquerade};
use cni_plugin::journal::Journal;

use crate::config::Config;
use facts::Facts;

mod facts;
mod gateways;
mod plan;
mod result;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?.for_add()?;
    let at = request.attachment()?;
    let netns = request.netns().unwrap_or_default();
    journal.host().enter(netns)?;
    let mut facts = facts::observe(&config, &at, journal.host())?;
    let is_link_first = config.ipam.as_deref().is_some_and(ipam::speaks_by_link);
    if is_link_first {
        journal.apply(&plan::plan_add(&config, &at, None, &facts)?)?;
    }
    let network = ask_for_addresses(&config, request, journal)?;
    if let Some(network) = network.as_ref().filter(|_| config.masquerade) {
        let addresses: Vec<Cidr> = network.addresses().collect();
        facts.masquerade_backend = masquerade::choose(config.masquerade_backend, &addresses, journal.host())?;
    }
    let plan = match &network {
        Some(network) if is_link_first => plan::plan_addresses(&config, &at, network, &facts)?,
        network => plan::plan_add(&config, &at, network.as_ref(), &facts)?,
    };
    journal.apply(&plan)?;
    warn_of_unfiltered(&config, &facts);
    let reported = network.map_or_else(|| layer_two(&config.dns), |ResolvedNetwork { result, .. }| result);
    Ok(CniResult { interfaces: result::interfaces(&config, &at, &facts.names, netns, journal.host())?, ..reported })
}

fn ask_for_addresses(
    config: &Config,
    request: &Request,
    journal: &mut Journal<'_>,
) -> Result<Option<ResolvedNetwork>, Error> {
    let Some(plugin) = &config.ipam else { return Ok(None) };
    let answer = ipam::add(plugin, request, journal)?;
    Ok(Some(ResolvedNetwork::decide(answer, config.gateway, result::CONTAINER, &config.dns)?))
}

/// A bridge that exists is not changed, as in the reference.
fn warn_of_unfiltered(config: &Config, facts: &Facts) {
    if config.vlans.filtering && facts.bridge.as_ref().is_some_and(|link| link.vlan_filtering != Some(true)) {
        let bridge = &config.bridge;
        log::warn!(
            "bridge {bridge} does not filter VLANs, so they separate nothing: it was made without vlan and \
             vlanTrunk; \"ip link set {bridge} type bridge vlan_filtering 1\" changes that for all its ports"
        );
    }
}
