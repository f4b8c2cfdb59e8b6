//! The ptp plugin: a veth pair between container and host. The host's end is the container's gateway; packets are
//! routed, without a bridge.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName};
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, Dns, Interface, IpConfig};
use cni_core::valid::ValidAttachments;
use cni_interface::addressing::{self, InterfaceParameter};
use cni_interface::alias::LinkOwner;
use cni_interface::keys::{self, IpamKey};
use cni_interface::network::{HostGateway, ResolvedNetwork, described};
use cni_interface::veth::{self, NewVeth};
use cni_interface::{earlier, ipam, leftovers, masquerade, verify};
use cni_model::link::Link;
use cni_model::netns::Occupancy;
use cni_model::plan::{Dad, IfPresent, LinkSetting, NewRoute, Ns, Plan, Step, Until};
use cni_netfilter::{Backend, Ruleset};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The plugin.
pub struct Ptp;

impl Plugin for Ptp {
    fn kind(&self) -> &'static str {
        "ptp"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let at = request.attachment()?;
        let netns = request.netns().unwrap_or_default();
        journal.host().enter(netns)?;
        let veth = NewVeth::choose(&at, None, journal.host())?;
        let answer = ipam::add(&config.ipam, request, journal)?;
        let network = ResolvedNetwork::decide(answer, HostGateway::None, CONTAINER, &config.dns)?;
        let addresses = RoutedAddress::all(&network.result.ips)?;
        let stale_routes = evict(&at, &addresses, journal.host())?;
        let mut rules = Vec::new();
        if config.masquerade {
            let own: Vec<Cidr> = network.addresses().collect();
            let backend = masquerade::choose(config.masquerade_backend, &own, journal.host())?;
            rules = masquerade::rulesets(backend, &at, &own);
        }
        let facts = Facts { veth, addresses, stale_routes, rules };
        journal.apply(&plan_add(config.mtu, &at, &network, &facts))?;
        let on_host = verify::present(Ns::Host, &facts.veth.host, journal.host())?;
        let inside = verify::present(Ns::Container, &at.ifname, journal.host())?;
        Ok(CniResult { interfaces: vec![described(&on_host, ""), described(&inside, netns)], ..network.result })
    }

    /// Removes the rules before the interface, and both before the addresses are released, which stay reserved if the
    /// interface cannot be searched for or removed. The kernel deletes the host's routes and the gateway's address with
    /// the interface. Rules are removed even if the configuration no longer asks for them.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        let mut removal = Removal::new(host);
        let sandbox = removal.attempt(|host| leftovers::observe_sandbox(request, &at, host));
        let is_known = sandbox.is_some();
        let sandbox = sandbox.unwrap_or_default();
        removal.attempt(|host| masquerade::remove(request, &at, &sandbox, host));
        ipam::del_with(request, &mut removal, |removal| {
            removal.attempt(|host| leftovers::remove_veth(&at, &sandbox, host)).filter(|()| is_known)
        });
        removal.finish()
    }

    /// Verifies that everything that carries the container's traffic is as ADD made it, at both ends of the pair.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        let netns = request.netns().unwrap_or_default();
        host.enter(netns)?;
        ipam::delegate(Some(&config.ipam), Command::Check, host)?;
        let result = verify::prev_result(request)?;
        let at = request.attachment()?;
        let reported = verify::interface_of_result(&result, &at.ifname, netns)?;
        let container = check_container(&at, reported, &result, host)?;
        check_host(&at, &container, &result, host)?;
        if config.masquerade {
            masquerade::verify(config.masquerade_backend, &at, &result, host)?;
        }
        Ok(())
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        ipam::delegate(Some(&Config::load(request)?.ipam), Command::Status, host)
    }

    /// The comment of a rule and the alias of a link name their owner. Rules are removed before the IPAM plugin releases
    /// their addresses. It is not called if a link cannot be removed.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let mut removal = Removal::new(host);
        removal.attempt(|host| masquerade::remove_stale(&request.network, valid, host));
        ipam::gc_with(request, &mut removal, |removal| leftovers::remove_invalid_veths(request, valid, removal));
        removal.finish()
    }

    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        let config = Config::load(request)?;
        if !config.masquerade {
            return Ok(Vec::new());
        }
        let (at, result) = (request.attachment()?, verify::prev_result(request)?);
        masquerade::find_missing(config.masquerade_backend, &at, &result, host)
    }
}

/// The place of the container's end in the result.
const CONTAINER: i64 = 1;

/// A configuration that can be carried out.
struct Config {
    /// Whether packets to other networks get the host's address.
    masquerade: bool,
    /// The backend for that; `None` for the one that the host has.
    masquerade_backend: Option<Backend>,
    /// MTU of both ends of the veth, in bytes.
    mtu: Option<u32>,
    /// The IPAM plugin.
    ipam: String,
    /// Name resolution, instead of the IPAM plugin's.
    dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    ip_masq: bool,
    ip_masq_backend: Option<String>,
    mtu: i64,
    ipam: IpamKey,
    dns: Dns,
    /// Not used by ADD, but a runtime that sends something else than an object is not understood.
    #[serde(rename = "prevResult")]
    _prev_result: BTreeMap<String, IgnoredAny>,
}

impl Config {
    /// Reads and checks every key.
    fn load(request: &Request) -> Result<Self, Error> {
        let Keys { ip_masq, ip_masq_backend, mtu, ipam, dns, _prev_result } = request.decode()?;
        Ok(Self {
            masquerade: ip_masq,
            masquerade_backend: keys::masquerade_backend(ip_masq_backend.as_deref())?,
            mtu: keys::mtu(mtu)?,
            ipam: ipam.required("ptp")?,
            dns,
        })
    }
}

/// The facts that the plan needs.
struct Facts {
    /// Names and MAC addresses of the pair.
    veth: NewVeth,
    /// The container's addresses with their gateways.
    addresses: Vec<RoutedAddress>,
    /// The steps that remove old routes to these addresses.
    stale_routes: Vec<Step>,
    /// The rules of the masquerade, if configured.
    rules: Vec<Ruleset>,
}

/// Skips duplicate address detection, since nothing else can have an address on the pair.
const TRUST_LINK_LOCAL: InterfaceParameter =
    InterfaceParameter { family: Family::V6, parameter: "accept_dad", value: "0" };

/// Plans an ADD; `mtu` is in bytes.
fn plan_add(mtu: Option<u32>, at: &Attachment, network: &ResolvedNetwork, facts: &Facts) -> Plan {
    let Facts { veth, addresses, stale_routes, rules } = facts;
    let mut plan = Plan::default();
    veth.plan(&mut plan, at, mtu);
    if has_ipv6(addresses) {
        plan.within(veth::trust_link_local(&veth.host));
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

/// An address of the container, and the one of the host by which it is reached.
#[derive(Debug)]
struct RoutedAddress {
    /// The container's, with the prefix length of its network.
    address: Cidr,
    /// The host's.
    gateway: IpAddr,
}

/// `RT_SCOPE_LINK` of `linux/rtnetlink.h`: the destination is on the link.
const SCOPE_LINK: u8 = 253;
/// `RT_SCOPE_HOST`: the destination is as near as the host itself.
const SCOPE_HOST: u8 = 254;

impl RoutedAddress {
    /// Requires a gateway for each address.
    fn all(ips: &[IpConfig]) -> Result<Vec<Self>, Error> {
        let routed = |ip: &IpConfig| {
            let address = ip.address;
            let given = format!("the IPAM plugin gives {address}");
            match ip.gateway {
                None => Err(fail!(InvalidConfig, "{given} no gateway, which ptp cannot do without")),
                Some(gateway) if Family::of(gateway) == address.family() => Ok(Self { address, gateway }),
                Some(other) => Err(fail!(InvalidConfig, "{given} the gateway {other}, which is of another family")),
            }
        };
        ips.iter().map(routed).collect()
    }

    /// The container's route to the gateway.
    fn gateway_route(&self) -> NewRoute {
        NewRoute { source: Some(self.address.address()), scope: Some(SCOPE_LINK), ..NewRoute::to(self.on_host()) }
    }

    /// The container's route to the rest of its network, which begins behind the gateway.
    fn network_route(&self) -> NewRoute {
        let (gw, source) = (Some(self.gateway), Some(self.address.address()));
        NewRoute { gw, source, ..NewRoute::to(self.address.network()) }
    }

    /// The host's route to the container.
    fn host_route(&self) -> NewRoute {
        NewRoute { scope: Some(SCOPE_HOST), ..NewRoute::to(Cidr::host(self.address.address())) }
    }

    /// The gateway as an address of the host's end.
    fn on_host(&self) -> Cidr {
        Cidr::host(self.gateway)
    }
}

/// The steps that take stale routes to the addresses away.
///
/// The reference keeps such a route, so packets to the new container go where the old route leads. This plugin refuses
/// the address if another container uses it. A veth without an alias is not this plugin's: a failed ADD of the reference
/// has left it, or a container has it. Only if no process can use it, its route is replaced.
fn evict(at: &Attachment, addresses: &[RoutedAddress], host: &mut dyn Host) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    for routed in addresses {
        let address = routed.address.address();
        let Some(link) = host.links(Ns::Host, LinkQuery::RouteTo(address))?.pop() else { continue };
        if let Some(user) = find_user(&link, at, host)? {
            let text = format!("address {address} is in use: the host has a route to it by {:?}", link.name);
            return Err(fail!(Conflict, "{text}", details: "{user}"));
        }
        let name = IfName::parse(&link.name)?;
        log::warn!("the host's route to {address} by {name} is replaced: no plugin has noted whose {name} is");
        steps.push(Step::RemoveRoute { ns: Ns::Host, name, route: routed.host_route() });
    }
    Ok(steps)
}

/// Says who uses a link; `None` if it is a veth that nobody uses. A veth with an alias is used as long as its other end is in a
/// namespace that lives.
fn find_user(link: &Link, at: &Attachment, host: &mut dyn Host) -> Result<Option<String>, Error> {
    let by_alias = link.alias.as_deref().map_or_else(String::new, |alias| format!("that link is {alias}"));
    match LinkOwner::of(link, at) {
        _ if !veth::is_veth(link) => Ok(Some(by_alias)),
        LinkOwner::Unlabelled => find_process(link, host),
        LinkOwner::This | LinkOwner::Another => {
            let has_ended = earlier::await_end(IfName::parse(&link.name)?, host);
            Ok(Some(by_alias).filter(|_| !has_ended))
        }
    }
}

/// Says which process may use a veth, since it is in the namespace of the other end. A failed ADD leaves a namespace without
/// processes. The addresses there do not count: a sandbox such as gVisor takes them from the kernel.
fn find_process(link: &Link, host: &mut dyn Host) -> Result<Option<String>, Error> {
    let (Some(number), Some(index)) = (link.peer_netns, link.peer) else { return Ok(None) };
    Ok(match host.namespaces().occupancy(number, index)? {
        Occupancy::Empty => None,
        Occupancy::Occupied(path) => Some(format!("a process uses that link: {path} leads to its namespace")),
        Occupancy::Unknown(reason) => Some(format!("a process may use that link: {reason}")),
    })
}

fn check_container(
    at: &Attachment,
    reported: &Interface,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Link, Error> {
    let container = verify::present(Ns::Container, &at.ifname, host)?;
    verify::kind(&container, "veth")?;
    verify::mac(&container, reported)?;
    verify::up(Ns::Container, &container)?;
    verify::addresses_and_routes(result, &container, host)?;
    Ok(container)
}

fn check_host(at: &Attachment, container: &Link, result: &CniResult, host: &mut dyn Host) -> Result<(), Error> {
    let end = veth::host_end(container, host)?.filter(|link| LinkOwner::of(link, at) != LinkOwner::Another);
    let ifname = &at.ifname;
    let end = end.ok_or_else(|| fail!(CheckFailed, "the host's end of interface {ifname} not found"))?;
    verify::up(Ns::Host, &end)?;
    let found = host.addresses(Ns::Host, Some(end.index), None)?;
    for ip in result.ips_of(at.ifname.as_str()) {
        let (address, name) = (ip.address.address(), &end.name);
        if let Some(gateway) = ip.gateway.filter(|gateway| found.iter().all(|one| one.cidr.address() != *gateway)) {
            return Err(fail!(CheckFailed, "Failed to match gateway addr {gateway} on interface {name}"));
        }
        if host.link_towards(Ns::Host, address)?.is_none_or(|link| link.index != end.index) {
            return Err(fail!(CheckFailed, "Expected Route to {address} by interface {name} not found on the host"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str, gateway: Option<&str>) -> IpConfig {
        let gateway = gateway.map(|text| text.parse().expect("an address"));
        IpConfig { interface: None, address: address.parse().expect("CIDR"), gateway }
    }

    #[test]
    fn an_address_without_a_gateway_of_its_family_is_refused() {
        for (gateway, text) in [
            (None, "the IPAM plugin gives 10.1.2.5/24 no gateway, which ptp cannot do without"),
            (Some("fd00::1"), "the IPAM plugin gives 10.1.2.5/24 the gateway fd00::1, which is of another family"),
        ] {
            let ips = [ip("fd00::5/64", Some("fd00::1")), ip("10.1.2.5/24", gateway)];
            let error = RoutedAddress::all(&ips).expect_err("refused");
            assert_eq!((error.code().number(), error.to_string()), (7, text.to_owned()));
        }
    }
}
