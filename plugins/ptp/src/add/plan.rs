//! The plan of an ADD, made from the IPAM plugin's result and a few facts.

use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_interface::addressing::{self, InterfaceParameter};
use cni_interface::network::ResolvedNetwork;
use cni_interface::veth::{NewVeth, trust_link_local};
use cni_model::plan::{Dad, IfPresent, LinkSetting, NewRoute, Ns, Plan, Step, Until};
use cni_netfilter::Ruleset;

use crate::gateway::RoutedAddress;

/// The facts that the plan needs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Names and MAC addresses of the pair.
    pub veth: NewVeth,
    /// The container's addresses with their gateways.
    pub addresses: Vec<RoutedAddress>,
    /// The steps that remove old routes to these addresses.
    pub stale_routes: Vec<Step>,
    /// The rules of the masquerade, if configured.
    pub rules: Vec<Ruleset>,
}

/// Skips duplicate address detection, since nothing else can have an address on the pair.
const TRUST_LINK_LOCAL: InterfaceParameter =
    InterfaceParameter { family: Family::V6, parameter: "accept_dad", value: "0" };

/// Plans an ADD; `mtu` is in bytes.
pub fn plan_add(mtu: Option<u32>, at: &Attachment, network: &ResolvedNetwork, facts: &Facts) -> Plan {
    let Facts { veth, addresses, stale_routes, rules } = facts;
    let mut plan = Plan::default();
    veth.plan(&mut plan, at, mtu);
    if has_ipv6(addresses) {
        plan.within(trust_link_local(&veth.host));
    }
    plan.within(veth.set(LinkSetting::Up));
    container(&mut plan, at, network, addresses);
    addressing::forward(&mut plan, addresses.iter().map(|routed| routed.address.family()));
    stale_routes.iter().for_each(|step| plan.owned(step.clone()));
    on_host(&mut plan, veth, addresses);
    rules.iter().for_each(|rules| plan.owned(Step::ensure_rules(rules.clone())));
    plan.within(Step::Await { ns: Ns::Host, name: veth.host.clone(), until: Until::Up });
    addressing::await_local(&mut plan, Ns::Host, &veth.host, addresses.iter().map(RoutedAddress::on_host));
    addressing::await_local(&mut plan, Ns::Container, &at.ifname, network.addresses());
    plan
}

fn has_ipv6(addresses: &[RoutedAddress]) -> bool {
    addresses.iter().any(|routed| routed.address.family() == Family::V6)
}

/// Adds the routes to the gateways first, since a gateway may be outside of the container's networks, then those of the IPAM
/// plugin. Only then are the kernel's own routes removed, since they make other gateways reachable.
fn container(plan: &mut Plan, at: &Attachment, network: &ResolvedNetwork, addresses: &[RoutedAddress]) {
    let name = &at.ifname;
    let to_gateways = distinct(addresses.iter().map(RoutedAddress::gateway_route));
    let is_new =
        |route: &&NewRoute| to_gateways.iter().all(|gateway| gateway.dst != route.dst || route.table.is_some());
    let routes = to_gateways.iter().chain(network.routes.iter().filter(is_new)).cloned().collect();
    let settings: &[InterfaceParameter] = if has_ipv6(addresses) { &[TRUST_LINK_LOCAL] } else { &[] };
    addressing::assign(plan, name, &ResolvedNetwork { routes, ..network.clone() }, Dad::Skip, settings);
    for route in distinct(addresses.iter().map(RoutedAddress::network_route)) {
        plan.within(Step::RemoveConnectedRoute { ns: Ns::Container, name: name.clone(), dst: route.dst });
        plan.within(Step::AddRoute { ns: Ns::Container, name: name.clone(), route });
    }
}

fn on_host(plan: &mut Plan, veth: &NewVeth, addresses: &[RoutedAddress]) {
    let (ns, name) = (Ns::Host, &veth.host);
    // The first one of a family is the source of what the host sends to the container.
    let mut gateways: Vec<_> = Vec::new();
    for gateway in addresses.iter().map(RoutedAddress::on_host) {
        if !gateways.contains(&gateway) {
            gateways.push(gateway);
        }
    }
    gateways.sort_by_key(|gateway| gateway.family());
    for cidr in gateways {
        let (dad, if_present) = (Dad::Skip, IfPresent::Refuse);
        plan.within(Step::AddAddress { ns, name: name.clone(), cidr, dad, if_present });
    }
    for route in distinct(addresses.iter().map(RoutedAddress::host_route)) {
        plan.within(Step::AddRoute { ns, name: name.clone(), route });
    }
}

/// The first route to each destination: two addresses may have one gateway, or be in one network.
fn distinct(routes: impl Iterator<Item = NewRoute>) -> Vec<NewRoute> {
    let mut found: Vec<NewRoute> = Vec::new();
    for route in routes {
        if found.iter().all(|earlier| earlier.dst != route.dst) {
            found.push(route);
        }
    }
    found
}
