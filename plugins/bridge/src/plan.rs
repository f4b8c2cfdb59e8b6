//! What an ADD does, decided from the configuration, the IPAM result and a few facts: no effects here.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_interface::addressing::{self, Setting};
use cni_interface::network::Network;
use cni_interface::{alias, masquerade};
use cni_netfilter::Backend;
use cni_plugin::link::{Address, Link};
use cni_plugin::plan::{
    BridgePort, Dad, IfPresent, LinkKind, LinkSetting, Need, NewLink, Ns, Plan, Step, Sysctl, Until, VethPeer,
};

use crate::config::Config;
use crate::spoof;

mod error;
mod gateways;
mod result;

pub use error::PlanError;
pub use result::{CONTAINER, interfaces};

use gateways::gateways;

/// What an ADD has to know of the machine.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The bridge, if it is there.
    pub bridge: Option<Link>,
    /// The addresses of the link that has the gateway's, which is the bridge or its link to the VLAN.
    pub gateway_addresses: Vec<Address>,
    /// What is to bring the masquerade about.
    pub masquerade_backend: Backend,
    /// Names and addresses for what is made.
    pub names: Names,
}

/// Names and addresses chosen at random.
#[derive(Clone, Debug)]
pub struct Names {
    /// The host's end of the veth.
    pub host: IfName,
    /// Its MAC address.
    pub host_mac: Mac,
    /// The MAC address of the container's end, unless one is configured.
    pub container_mac: Mac,
    /// The MAC address of the bridge, if it has to be made.
    pub bridge_mac: Mac,
    /// The port of the link to the VLAN, if that has to be made.
    pub vlan_port: IfName,
    /// The MAC address of that link.
    pub vlan_mac: Mac,
    /// The MAC address of its port.
    pub vlan_port_mac: Mac,
}

/// Plans an ADD: the bridge, the veth, and with IPAM the addresses, the gateway and the masquerade.
///
/// # Errors
/// [`PlanError`] when what is there stands in the way.
pub fn add(config: &Config, at: &Attachment, network: Option<&Network>, facts: &Facts) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    bridge(&mut plan, config, network, facts)?;
    veth(&mut plan, config, at, &facts.names);
    if config.spoof_check {
        let check = spoof::ensure(at, &facts.names.host, container_mac(config, &facts.names));
        plan.owned(Step::ensure_rules(check));
    }
    match network {
        Some(network) => {
            container(&mut plan, config, at, network);
            gateways(&mut plan, config, network, facts)?;
            if config.masquerade {
                let addresses: Vec<Cidr> = network.addresses().collect();
                let rulesets = masquerade::rulesets(facts.masquerade_backend, at, &addresses);
                rulesets.into_iter().for_each(|ruleset| plan.owned(Step::ensure_rules(ruleset)));
            }
        }
        None if config.leave_down => return Ok(plan),
        None => plan.within(set(Ns::Container, &at.ifname, LinkSetting::Up)),
    }
    plan.within(Step::Await { ns: Ns::Host, name: facts.names.host.clone(), until: Until::Up });
    Ok(plan)
}

/// The bridge gets its MAC address when it is made, so that it does not follow its ports; one that is
/// there is not changed.
fn bridge(plan: &mut Plan, config: &Config, network: Option<&Network>, facts: &Facts) -> Result<(), PlanError> {
    let name = config.bridge.clone();
    match &facts.bridge {
        Some(link) if link.kind.as_deref() != Some("bridge") => {
            let kind = link.kind.clone().unwrap_or_default();
            return Err(PlanError::NotABridge { name: name.to_string(), kind });
        }
        Some(_) => {}
        None => {
            let link = NewLink {
                name: name.clone(),
                mac: Some(facts.names.bridge_mac.clone()),
                mtu: config.mtu,
                if_present: IfPresent::Accept,
                kind: LinkKind::Bridge { vlan_filtering: config.vlans.filtering },
            };
            plan.shared(Step::CreateLink { ns: Ns::Host, link });
            if !config.detect_duplicates && network.is_some_and(Network::has_ipv6_gateway) {
                plan.shared(trust_link_local(&name));
            }
        }
    }
    if config.promisc {
        plan.shared(set(Ns::Host, &name, LinkSetting::Promisc(true)));
    }
    plan.shared(accept_no_router(&name));
    if facts.bridge.as_ref().is_none_or(|link| !link.up) {
        plan.shared(set(Ns::Host, &name, LinkSetting::Up));
    }
    Ok(())
}

/// The link-local address of a new bridge follows from a MAC address that nobody else has. Until the kernel
/// has made sure of that, for two seconds, it looks for no neighbour by the bridge, and so forwards no IPv6
/// packet to a container.
fn trust_link_local(name: &IfName) -> Step {
    let key = Sysctl::interface(Family::V6, name, "accept_dad");
    Step::SetSysctl { ns: Ns::Host, key, value: "0".to_owned(), need: Need::Wanted }
}

/// Router advertisements of containers must not change the host's routes: CVE-2020-10749.
fn accept_no_router(name: &IfName) -> Step {
    let key = Sysctl::interface(Family::V6, name, "accept_ra");
    Step::SetSysctl { ns: Ns::Host, key, value: "0".to_owned(), need: Need::Wanted }
}

fn veth(plan: &mut Plan, config: &Config, at: &Attachment, names: &Names) {
    let host = &names.host;
    let peer = VethPeer { ns: Ns::Host, name: host.clone(), mac: names.host_mac.clone() };
    let link = NewLink {
        name: at.ifname.clone(),
        mac: Some(container_mac(config, names).clone()),
        mtu: config.mtu,
        if_present: IfPresent::Refuse,
        kind: LinkKind::Veth { peer },
    };
    plan.owned(Step::CreateLink { ns: Ns::Container, link });
    plan.within(set(Ns::Host, host, LinkSetting::Alias(alias::of(at))));
    plan.within(accept_no_router(host));
    plan.within(set(Ns::Host, host, LinkSetting::Up));
    plan.within(set(Ns::Host, host, LinkSetting::Master(config.bridge.clone())));
    let port = BridgePort { hairpin: config.hairpin, isolated: config.isolated };
    plan.within(set(Ns::Host, host, LinkSetting::Port(port)));
    if let Some(vlans) = config.vlans.port.clone() {
        plan.within(Step::SetPortVlans { ns: Ns::Host, name: host.clone(), vlans });
    }
}

fn set(ns: Ns, name: &IfName, setting: LinkSetting) -> Step {
    Step::SetLink { ns, name: name.clone(), setting }
}

fn container_mac<'a>(config: &'a Config, names: &'a Names) -> &'a Mac {
    config.mac.as_ref().unwrap_or(&names.container_mac)
}

/// With `enabledad` the kernel looks for another user of an IPv6 address first.
fn container(plan: &mut Plan, config: &Config, at: &Attachment, network: &Network) {
    let ipv6 = |parameter, value| Setting { family: Family::V6, parameter, value };
    let arp_notify = Setting { family: Family::V4, parameter: "arp_notify", value: "1" };
    if config.detect_duplicates {
        let settings = [ipv6("enhanced_dad", "1"), ipv6("accept_dad", "1"), arp_notify];
        addressing::assign(plan, &at.ifname, network, Dad::Perform, &settings);
    } else {
        addressing::assign(plan, &at.ifname, network, Dad::Skip, &[ipv6("accept_dad", "0"), arp_notify]);
    }
}

#[cfg(test)]
mod tests;
