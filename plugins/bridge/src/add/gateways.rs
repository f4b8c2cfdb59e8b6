//! The host as the containers' gateway: its addresses on the bridge or on a link into their VLAN, and
//! forwarding. All of it is shared.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_interface::network::Network;
use cni_interface::veth::accept_no_router;
use cni_plugin::link::Address;
use cni_plugin::plan::{Dad, IfPresent, LinkSetting, Need, Ns, Plan, Step, Sysctl};
use cni_plugin::vlan::VlanLink;

use super::error::PlanError;
use super::facts::{Facts, NewNames};
use crate::config::{Config, OtherAddress};
use crate::vlan::GatewayLink;

/// Plans the gateways of a network.
///
/// # Errors
/// [`PlanError::OtherAddress`] when an address is in the way that must not be taken away.
pub(super) fn gateways(plan: &mut Plan, config: &Config, network: &Network, facts: &Facts) -> Result<(), PlanError> {
    vlan_link(plan, config, &facts.names);
    let name = config.gateway_link();
    let present = |gateway: &Cidr| facts.gateway_addresses.iter().any(|address| address.cidr == *gateway);
    for gateway in network.gateways.iter().filter(|gateway| !present(gateway)) {
        for other in conflicts(&facts.gateway_addresses, &network.gateways, *gateway) {
            if config.other_address == OtherAddress::Refuse {
                let bridge = name.to_string();
                return Err(PlanError::OtherAddress { bridge, gateway: *gateway, found: other });
            }
            plan.shared(Step::RemoveAddress { ns: Ns::Host, name: name.clone(), cidr: other });
        }
        let (ns, cidr, dad, if_present) = (Ns::Host, *gateway, Dad::Skip, IfPresent::Accept);
        plan.shared(Step::AddAddress { ns, name: name.clone(), cidr, dad, if_present });
        if let Some(mac) = facts.bridge.as_ref().and_then(|link| link.mac.clone()).filter(|_| *name == config.bridge) {
            plan.shared(Step::set_link(Ns::Host, name, LinkSetting::Mac(mac)));
        }
    }
    for family in Family::ALL {
        if network.gateways.iter().any(|gateway| gateway.family() == family) {
            let key = Sysctl::forwarding(family);
            plan.shared(Step::SetSysctl { ns: Ns::Host, key, value: "1".to_owned(), need: Need::Required });
        }
    }
    Ok(())
}

/// The bridge itself takes part in no VLAN but the kernel's own, so that the host needs a port of its own
/// to be the gateway of another one.
fn vlan_link(plan: &mut Plan, config: &Config, names: &NewNames) {
    let Some(GatewayLink { name, vlans }) = &config.vlans.gateway else { return };
    plan.shared(Step::EnsureVlanLink(VlanLink {
        name: name.clone(),
        mac: names.vlan_mac.clone(),
        port: names.vlan_port.clone(),
        port_mac: names.vlan_port_mac.clone(),
        bridge: config.bridge.clone(),
        vlans: vlans.clone(),
    }));
    plan.shared(accept_no_router(name));
    plan.shared(Step::set_link(Ns::Host, name, LinkSetting::Up));
}

/// Any other IPv4 address of the bridge conflicts with a gateway, an IPv6 address only when the
/// networks overlap. The gateways of one ADD are not in each other's way.
fn conflicts(present: &[Address], wanted: &[Cidr], gateway: Cidr) -> Vec<Cidr> {
    let others = present.iter().map(|address| address.cidr).filter(|cidr| !wanted.contains(cidr));
    others
        .filter(|other| match (other.family(), gateway.family()) {
            (Family::V4, Family::V4) => true,
            (Family::V6, Family::V6) => other.overlaps(gateway),
            (Family::V4, Family::V6) | (Family::V6, Family::V4) => false,
        })
        .collect()
}
