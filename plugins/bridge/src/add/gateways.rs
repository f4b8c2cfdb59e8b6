//! The host as the containers' gateway: its addresses, on the bridge or on a link to their VLAN, and forwarding. All
//! of it is shared.

use cni_interface::addressing;
use cni_interface::network::ResolvedNetwork;
use cni_interface::veth::accept_no_router;
use cni_model::plan::{LinkSetting, NewGateway, Ns, OtherAddressError, Plan, Step};
use cni_model::vlan::VlanLink;

use super::facts::{Facts, NewNames};
use crate::config::Config;
use crate::vlan::GatewayLink;

/// Plans the gateways of a network.
///
/// # Errors
/// When an address is in the way that must not be taken away.
pub(super) fn gateways(
    plan: &mut Plan,
    config: &Config,
    network: &ResolvedNetwork,
    facts: &Facts,
) -> Result<(), OtherAddressError> {
    vlan_link(plan, config, &facts.names);
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
