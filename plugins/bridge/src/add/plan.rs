//! The plan of an ADD, made from the configuration, the IPAM result and a few facts.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_interface::addressing::{self, InterfaceParameter};
use cni_interface::masquerade;
use cni_interface::network::ResolvedNetwork;
use cni_interface::veth::{NewVeth, accept_no_router, trust_link_local};
use cni_model::link::{Address, Link};
use cni_model::plan::{BridgePort, Dad, IfPresent, LinkKind, LinkSetting, NewGateway, NewLink, Ns, Plan, Step, Until};
use cni_model::vlan::VlanLink;
use cni_netfilter::Backend;

use crate::config::{Config, GatewayLink};
use crate::spoof::{self, CheckNames};

/// The facts that an ADD needs.
pub struct Facts {
    /// The bridge, if it exists.
    pub bridge: Option<Link>,
    /// The addresses of the link that has the gateway's, which is the bridge or its link to the VLAN.
    pub gateway_addresses: Vec<Address>,
    /// Which backend masquerades.
    pub masquerade_backend: Backend,
    /// The addresses that earlier ADDs have masqueraded.
    pub masqueraded: Vec<IpAddr>,
    /// The names of the check of MAC addresses, if one is configured.
    pub spoof_check: Option<CheckNames>,
    /// Names and MAC addresses of the pair, chosen at random unless the container's address is configured.
    pub veth: NewVeth,
    /// The port of the link to the VLAN, if that has to be made; like the rest, chosen at random.
    pub vlan_port: IfName,
    /// The MAC address of that link.
    pub vlan_mac: Mac,
    /// The MAC address of its port.
    pub vlan_port_mac: Mac,
}

/// Plans an ADD: the bridge, the veth, and with IPAM the addresses, the gateway and the masquerade.
///
/// # Errors
/// If something that exists prevents it.
pub fn plan_add(
    config: &Config,
    at: &Attachment,
    network: Option<&ResolvedNetwork>,
    facts: &Facts,
) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    let veth = &facts.veth;
    bridge(&mut plan, config, network, facts)?;
    veth.plan(&mut plan, at, config.mtu);
    plan.within(veth.set(LinkSetting::Up));
    port(&mut plan, config, veth);
    if let Some(names) = &facts.spoof_check {
        plan.owned(Step::ensure_rules(spoof::ensure(names, &veth.host, &veth.container_mac)));
    }
    match network {
        Some(network) => addresses(&mut plan, config, at, network, facts)?,
        None if config.leave_down => return Ok(plan),
        None => plan.within(Step::set_link(Ns::Container, &at.ifname, LinkSetting::Up)),
    }
    plan.within(Step::Await { ns: Ns::Host, name: veth.host.clone(), until: Until::Up });
    if let Some(network) = network {
        addressing::await_local(&mut plan, Ns::Host, config.gateway_link(), network.gateways.iter().copied());
        addressing::await_local(&mut plan, Ns::Container, &at.ifname, network.addresses());
        plan.within(announce(at, facts));
    }
    Ok(plan)
}

/// Plans the rest of an ADD, after the IPAM plugin has asked for addresses through the container's interface.
///
/// # Errors
/// If something that exists prevents it.
pub fn plan_addresses(
    config: &Config,
    at: &Attachment,
    network: &ResolvedNetwork,
    facts: &Facts,
) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    addresses(&mut plan, config, at, network, facts)?;
    plan.within(announce(at, facts));
    Ok(plan)
}

/// Makes the kernel announce the container's addresses, by setting the MAC address that the interface has already. What it
/// announces when the interface is set up is lost, since the bridge's port forwards only a moment later; neighbours that know
/// an earlier owner of an address would send to that one for half a minute.
fn announce(at: &Attachment, facts: &Facts) -> Step {
    Step::set_link(Ns::Container, &at.ifname, LinkSetting::Mac(facts.veth.container_mac.clone()))
}

fn addresses(
    plan: &mut Plan,
    config: &Config,
    at: &Attachment,
    network: &ResolvedNetwork,
    facts: &Facts,
) -> Result<(), Error> {
    container(plan, config, at, network);
    gateways(plan, config, network, facts)?;
    if config.masquerade {
        let addresses: Vec<Cidr> = network.addresses().collect();
        masquerade::plan(plan, facts.masquerade_backend, at, &addresses, &facts.masqueraded);
    }
    Ok(())
}

/// Plans the bridge. An existing one is not changed; a new one keeps the MAC address that the kernel gives it.
fn bridge(plan: &mut Plan, config: &Config, network: Option<&ResolvedNetwork>, facts: &Facts) -> Result<(), Error> {
    let name = config.bridge.clone();
    match &facts.bridge {
        Some(link) if link.kind.as_deref() != Some("bridge") => {
            let (name, kind) = (name.as_str(), link.kind.as_deref().unwrap_or_default());
            let text = format!("failed to create bridge {name:?}: {name:?} already exists but is not a bridge");
            return Err(fail!(Conflict, "{text}", details: "it is of kind {kind:?}"));
        }
        Some(_) => {}
        None => {
            let link = NewLink {
                name: name.clone(),
                mac: None,
                mtu: config.mtu,
                if_present: IfPresent::Accept,
                kind: LinkKind::Bridge { vlan_filtering: config.vlans.filtering },
            };
            plan.shared(Step::CreateLink { ns: Ns::Host, link });
            if !config.detect_duplicates && network.is_some_and(ResolvedNetwork::has_ipv6_gateway) {
                plan.shared(trust_link_local(&name));
            }
        }
    }
    if config.promisc {
        plan.shared(Step::set_link(Ns::Host, &name, LinkSetting::Promisc(true)));
    }
    plan.shared(accept_no_router(&name));
    if facts.bridge.as_ref().is_none_or(|link| !link.up) {
        plan.shared(Step::set_link(Ns::Host, &name, LinkSetting::Up));
    }
    Ok(())
}

/// Plans the port: what the host's end of the veth becomes.
fn port(plan: &mut Plan, config: &Config, veth: &NewVeth) {
    plan.within(veth.set(LinkSetting::Master(config.bridge.clone())));
    let port = BridgePort { hairpin: config.hairpin, isolated: config.isolated };
    plan.within(veth.set(LinkSetting::Port(port)));
    if let Some(vlans) = config.vlans.port.clone() {
        plan.within(Step::SetPortVlans { ns: Ns::Host, name: veth.host.clone(), vlans });
    }
}

/// With `enabledad` the kernel looks for another user of an IPv6 address first.
fn container(plan: &mut Plan, config: &Config, at: &Attachment, network: &ResolvedNetwork) {
    let ipv6 = |parameter, value| InterfaceParameter { family: Family::V6, parameter, value };
    let arp_notify = InterfaceParameter { family: Family::V4, parameter: "arp_notify", value: "1" };
    let has_ipv6 = network.addresses().any(|address| address.family() == Family::V6);
    let ndisc_notify = has_ipv6.then(|| ipv6("ndisc_notify", "1"));
    if config.detect_duplicates {
        let settings = [ipv6("enhanced_dad", "1"), ipv6("accept_dad", "1"), arp_notify].into_iter().chain(ndisc_notify);
        addressing::assign(plan, &at.ifname, network, Dad::Perform, &settings.collect::<Vec<_>>());
    } else {
        let settings = [ipv6("accept_dad", "0"), arp_notify].into_iter().chain(ndisc_notify);
        addressing::assign(plan, &at.ifname, network, Dad::Skip, &settings.collect::<Vec<_>>());
    }
}

/// Plans the host as the containers' gateway: its addresses, on the bridge or on a link to their VLAN, and forwarding.
/// All of it is shared.
fn gateways(plan: &mut Plan, config: &Config, network: &ResolvedNetwork, facts: &Facts) -> Result<(), Error> {
    vlan_link(plan, config, facts);
    let name = config.gateway_link();
    for cidr in &network.gateways {
        let gateway = NewGateway {
            link: name.clone(),
            cidr: *cidr,
            network: network.gateways.clone(),
            other: config.other_address,
        };
        if gateway.is_among(&facts.gateway_addresses) {
            continue;
        }
        for other in gateway.unwanted(&facts.gateway_addresses)? {
            plan.shared(Step::RemoveAddress { ns: Ns::Host, name: name.clone(), cidr: other });
        }
        plan.shared(Step::EnsureGateway(gateway));
        if let Some(mac) = facts.bridge.as_ref().and_then(|link| link.mac.clone()).filter(|_| *name == config.bridge) {
            plan.shared(Step::set_link(Ns::Host, name, LinkSetting::Mac(mac)));
        }
    }
    addressing::forward(plan, network.gateways.iter().map(|gateway| gateway.family()));
    Ok(())
}

/// The bridge itself takes part in no VLAN but the kernel's own, so that the host needs a port of its own
/// to be the gateway of another one.
fn vlan_link(plan: &mut Plan, config: &Config, facts: &Facts) {
    let Some(GatewayLink { name, vlans }) = &config.vlans.gateway else { return };
    plan.shared(Step::EnsureVlanLink(VlanLink {
        name: name.clone(),
        mac: facts.vlan_mac.clone(),
        port: facts.vlan_port.clone(),
        port_mac: facts.vlan_port_mac.clone(),
        bridge: config.bridge.clone(),
        vlans: vlans.clone(),
    }));
    plan.shared(accept_no_router(name));
    plan.shared(Step::set_link(Ns::Host, name, LinkSetting::Up));
}

#[cfg(test)]
mod tests;
