//! ADD: asks for facts and addresses, makes a plan, and applies it. An IPAM plugin that asks a server through the
//! interface is called after the interface is created.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_interface::network::{ResolvedNetwork, described, layer_two};
use cni_interface::verify::present;
use cni_interface::veth::NewVeth;
use cni_interface::{ipam, masquerade, naming};
use cni_model::plan::Ns;
use cni_netfilter::Backend;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::Config;
use crate::spoof::CheckNames;
use plan::Facts;

mod plan;

/// The place of the container's interface in the result.
const CONTAINER: i64 = 2;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?.for_add()?;
    let at = request.attachment()?;
    let netns = request.netns().unwrap_or_default();
    journal.host().enter(netns)?;
    let mut facts = observe(&config, &at, journal.host())?;
    let is_link_first = config.ipam.as_deref().is_some_and(ipam::speaks_by_link);
    if is_link_first {
        journal.apply(&plan::plan_add(&config, &at, None, &facts)?)?;
    }
    let network = match &config.ipam {
        Some(plugin) => {
            let answer = ipam::add(plugin, request, journal)?;
            Some(ResolvedNetwork::decide(answer, config.gateway, CONTAINER, &config.dns)?)
        }
        None => None,
    };
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
    Ok(CniResult { interfaces: interfaces(&config, &at, &facts.veth.host, netns, journal.host())?, ..reported })
}

/// Asks for the facts, and refuses a name that the container's interface cannot have.
fn observe(config: &Config, at: &Attachment, host: &mut dyn Host) -> Result<Facts, Error> {
    let veth = NewVeth::choose(at, config.mac.as_ref(), host)?;
    let vlan_port = naming::random_name(host);
    let (vlan_mac, vlan_port_mac) = (naming::random_mac(host), naming::random_mac(host));
    let bridge = host.link(Ns::Host, &config.bridge)?;
    let gateway = match &config.vlans.gateway {
        Some(link) => host.link(Ns::Host, &link.name)?,
        None => bridge.clone(),
    };
    let gateway_addresses = match &gateway {
        Some(link) => host.addresses(Ns::Host, Some(link.index), None)?,
        None => Vec::new(),
    };
    let spoof_check = config.spoof_check.then(|| CheckNames::choose(at, host)).transpose()?;
    let masqueraded = if config.masquerade { masquerade::addresses(at, host)? } else { None };
    Ok(Facts {
        bridge,
        gateway_addresses,
        masquerade_backend: Backend::Iptables,
        masqueraded: masqueraded.unwrap_or_default(),
        spoof_check,
        veth,
        vlan_port,
        vlan_mac,
        vlan_port_mac,
    })
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

/// The bridge, the host's end and the container's end of the veth, and the link to the VLAN if that is the
/// gateway. They are read back: another ADD may have made the bridge in the meantime.
fn interfaces(
    config: &Config,
    at: &Attachment,
    port: &IfName,
    netns: &str,
    host: &mut dyn Host,
) -> Result<Vec<Interface>, Error> {
    let mut interfaces = vec![
        described(&present(Ns::Host, &config.bridge, host)?, ""),
        described(&present(Ns::Host, port, host)?, ""),
        described(&present(Ns::Container, &at.ifname, host)?, netns),
    ];
    if let Some(link) = &config.vlans.gateway {
        interfaces.push(described(&present(Ns::Host, &link.name, host)?, ""));
    }
    Ok(interfaces)
}
