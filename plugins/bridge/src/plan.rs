//! What an ADD does, decided from the configuration, the IPAM result and a few facts: no effects here.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, ip_offset};
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::firewall::{
    Ensure, Existing as ExistingChain, Jumps, Match, OwnedChain, OwnedChainRef, Remove, Rule, Table, Target,
};
use cni_core::link::{Address, Link, Mac};
use cni_core::names::{Attachment, ChainName, ContainerId, IfName, NetworkName};
use cni_core::plan::{Dad, Existing, Need, Ns, Plan, Step, Sysctl};
use cni_core::result::{CniResult, Dns, Interface, Route};
use cni_core::vlan::VlanLink;

use crate::config::{Config, Gateway, OtherAddress};
use crate::masquerade::{self, Backend};
use crate::spoof;
use crate::vlan::GatewayLink;

/// An ADD that cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The container has an interface of this name: SPEC "ADD" makes that an error.
    #[error("container veth name ({ifname:?}) peer provided ({host:?}) already exists")]
    InterfaceExists {
        /// The name inside the container.
        ifname: String,
        /// The name that the host's end would have had.
        host: String,
    },
    /// The interface's name is a pattern to the kernel, which would choose a number for it.
    #[error("failed to make veth pair: % in {ifname:?} has a meaning of its own in the name of a new interface")]
    Pattern {
        /// The name inside the container.
        ifname: String,
    },
    /// There is a link of the bridge's name that is no bridge.
    #[error("failed to create bridge {name:?}: {name:?} already exists but is not a bridge")]
    NotABridge {
        /// The name.
        name: String,
        /// What it is.
        kind: String,
    },
    /// The IPAM plugin gave no address.
    #[error("IPAM plugin returned missing IP config")]
    NoAddress,
    /// The network has no address left for a gateway.
    #[error("no address follows {network} to be the gateway's")]
    NoGateway {
        /// The network.
        network: Cidr,
    },
    /// The bridge, or the link to the VLAN, has an address of another network.
    #[error("failed to set bridge addr: {bridge:?} already has an IP address different from {gateway}")]
    OtherAddress {
        /// The bridge or the link.
        bridge: String,
        /// The address that was wanted.
        gateway: Cidr,
        /// The address that is there.
        found: Cidr,
    },
    /// A route's next hop is of another family than its destination.
    #[error("failed to add route to {dst}: its gateway {gw} is of another family")]
    RouteFamily {
        /// The destination.
        dst: Cidr,
        /// The next hop.
        gw: IpAddr,
    },
    /// A route has a number that the kernel does not take.
    #[error("failed to add route to {dst}: {key} {value} is out of range")]
    RouteNumber {
        /// The destination.
        dst: Cidr,
        /// The key.
        key: &'static str,
        /// The value.
        value: i64,
    },
}

impl Failure for PlanError {
    fn code(&self) -> Code {
        match self {
            Self::InterfaceExists { .. } | Self::NotABridge { .. } | Self::OtherAddress { .. } => Code::Conflict,
            Self::Pattern { .. } => Code::InvalidEnvironment,
            Self::NoAddress | Self::NoGateway { .. } | Self::RouteFamily { .. } | Self::RouteNumber { .. } => {
                Code::InvalidConfig
            }
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotABridge { kind, .. } => format!("it is of kind {kind:?}"),
            Self::OtherAddress { found, .. } => {
                format!("it has {found}; forceAddress: true replaces it, for every container on the bridge")
            }
            Self::InterfaceExists { .. }
            | Self::Pattern { .. }
            | Self::NoAddress
            | Self::NoGateway { .. }
            | Self::RouteFamily { .. }
            | Self::RouteNumber { .. } => String::new(),
        }
    }
}

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

/// Addresses and routes for the container, gateways decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// What the result tells.
    pub result: CniResult,
    /// The gateway addresses that the bridge must have.
    pub gateways: Vec<Cidr>,
    /// The routes to install, next hops decided.
    pub routes: Vec<Route>,
}

/// Decides on the gateways: of each address, of the default route, and of every route that names none.
///
/// # Errors
/// [`PlanError::NoAddress`] or [`PlanError::NoGateway`].
pub fn network(config: &Config, ipam: CniResult) -> Result<Network, PlanError> {
    let CniResult { interfaces: _, mut ips, mut routes, dns } = ipam;
    if ips.is_empty() {
        return Err(PlanError::NoAddress);
    }
    let mut gateways = Vec::new();
    for ip in &mut ips {
        ip.interface = Some(2);
        if config.gateway == Gateway::None {
            continue;
        }
        let gateway = ip.gateway.map_or_else(|| first_address(ip.address), Ok)?;
        ip.gateway = Some(gateway);
        gateways.push(Cidr::truncated(gateway, ip.address.prefix()));
        let family = ip.address.family();
        let has_default = routes.iter().any(|route| route.is_default() && route.family() == family);
        if config.gateway == Gateway::DefaultRoute && !has_default {
            routes.push(Route::via(family.default_route(), gateway));
        }
    }
    gateways.sort_by_key(|gateway| gateway.family());
    gateways.dedup();
    let first_gateway = |family| ips.iter().filter_map(|ip| ip.gateway).find(|gateway| Family::of(*gateway) == family);
    let mut decided = Vec::new();
    for route in &routes {
        let on_link = route.scope == Some(SCOPE_LINK);
        let gw = route.gw.or_else(|| if on_link { None } else { first_gateway(route.family()) });
        let route = Route { gw, ..route.clone() };
        if !decided.contains(&route) {
            decided.push(checked(route)?);
        }
    }
    let dns = if config.dns.is_absent() { dns } else { config.dns.clone() };
    Ok(Network { result: CniResult { interfaces: Vec::new(), ips, routes, dns }, gateways, routes: decided })
}

/// `RT_SCOPE_LINK` of `linux/rtnetlink.h`: the destination is on the link, there is no next hop.
const SCOPE_LINK: i64 = 253;

fn first_address(address: Cidr) -> Result<IpAddr, PlanError> {
    let network = address.network();
    ip_offset(network.address(), 1).ok_or(PlanError::NoGateway { network })
}

/// The kernel's fields are 32 bits wide, the scope's 8.
fn checked(route: Route) -> Result<Route, PlanError> {
    let Route { dst, gw, mtu, advmss, priority, table, scope } = route;
    if let Some(gw) = gw.filter(|gw| Family::of(*gw) != dst.family()) {
        return Err(PlanError::RouteFamily { dst, gw });
    }
    let wide = i64::from(u32::MAX);
    let numbers = [
        ("mtu", Some(mtu), wide),
        ("advmss", Some(advmss), wide),
        ("priority", Some(priority), wide),
        ("table", table, wide),
        ("scope", scope, 255),
    ];
    for (key, value, most) in numbers {
        if let Some(value) = value.filter(|value| !(0..=most).contains(value)) {
            return Err(PlanError::RouteNumber { dst, key, value });
        }
    }
    Ok(route)
}

/// The result's DNS in a network without IPAM.
pub fn layer_two(dns: &Dns) -> CniResult {
    CniResult { dns: dns.clone(), ..CniResult::default() }
}

/// Plans an ADD: the bridge, the veth, and with IPAM the addresses, the gateway and the masquerade.
///
/// # Errors
/// [`PlanError`] when what is there stands in the way.
pub fn add(config: &Config, at: &Attachment, network: Option<&Network>, facts: &Facts) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    bridge(&mut plan, config, facts)?;
    veth(&mut plan, config, at, &facts.names);
    if config.spoof_check {
        let check = spoof::ensure(at, &facts.names.host, container_mac(config, &facts.names));
        plan.owned(Step::EnsureNftables(check));
    }
    match network {
        Some(network) => {
            container(&mut plan, config, at, network);
            gateways(&mut plan, config, network, facts)?;
            if config.masquerade {
                masquerade_by(&mut plan, facts.masquerade_backend, at, &addresses(&network.result));
            }
        }
        None if config.leave_down => return Ok(plan),
        None => plan.within(Step::SetUp { ns: Ns::Container, name: at.ifname.clone() }),
    }
    plan.within(Step::AwaitUp { name: facts.names.host.clone() });
    Ok(plan)
}

/// The bridge gets its MAC address when it is made, so that it does not follow its ports; one that is
/// there is not changed.
fn bridge(plan: &mut Plan, config: &Config, facts: &Facts) -> Result<(), PlanError> {
    let name = config.bridge.clone();
    match &facts.bridge {
        Some(link) if link.kind.as_deref() != Some("bridge") => {
            let kind = link.kind.clone().unwrap_or_default();
            return Err(PlanError::NotABridge { name: name.to_string(), kind });
        }
        Some(_) => {}
        None => plan.shared(Step::CreateBridge {
            name: name.clone(),
            mtu: config.mtu,
            mac: facts.names.bridge_mac.clone(),
            vlan_filtering: config.vlans.filtering,
        }),
    }
    if config.promisc {
        plan.shared(Step::SetPromisc { name: name.clone() });
    }
    plan.shared(accept_no_router(&name));
    if facts.bridge.as_ref().is_none_or(|link| !link.up) {
        plan.shared(Step::SetUp { ns: Ns::Host, name });
    }
    Ok(())
}

/// Router advertisements of containers must not change the host's routes: CVE-2020-10749.
fn accept_no_router(name: &IfName) -> Step {
    let key = Sysctl::interface(Family::V6, name, "accept_ra");
    Step::SetSysctl { ns: Ns::Host, key, value: "0", need: Need::Wanted }
}

fn veth(plan: &mut Plan, config: &Config, at: &Attachment, names: &Names) {
    let host = names.host.clone();
    plan.owned(Step::CreateVeth {
        container: at.ifname.clone(),
        container_mac: container_mac(config, names).clone(),
        host: host.clone(),
        host_mac: names.host_mac.clone(),
        mtu: config.mtu,
    });
    plan.within(Step::SetAlias { name: host.clone(), text: alias(at) });
    plan.within(accept_no_router(&host));
    plan.within(Step::SetUp { ns: Ns::Host, name: host.clone() });
    plan.within(Step::AttachPort { name: host.clone(), bridge: config.bridge.clone() });
    plan.within(Step::SetPort { name: host.clone(), hairpin: config.hairpin, isolated: config.isolated });
    if let Some(vlans) = config.vlans.port.clone() {
        plan.within(Step::SetPortVlans { name: host, vlans });
    }
}

fn container_mac<'a>(config: &'a Config, names: &'a Names) -> &'a Mac {
    config.mac.as_ref().unwrap_or(&names.container_mac)
}

/// How long an alias may be: `IFALIASZ` of `linux/if.h`, less one.
const ALIAS_LEN: usize = 255;

/// `IFLA_IFALIAS` of the host's end: whose it is.
pub fn alias(at: &Attachment) -> String {
    let mut text = format!("{}{}:{}", alias_start(&at.network), at.container, at.ifname);
    text.truncate(ALIAS_LEN);
    text
}

/// How the aliases of a network's attachments begin.
pub fn alias_start(network: &NetworkName) -> String {
    format!("cni:{network}:")
}

/// Whose a link with an alias is; `None` also where the alias was cut.
pub fn owner(alias: &str, network: &NetworkName) -> Option<Attachment> {
    let (container, ifname) = alias.strip_prefix(&alias_start(network))?.rsplit_once(':')?;
    let (container, ifname) = (ContainerId::parse(container).ok()?, IfName::parse(ifname).ok()?);
    let at = Attachment { network: network.clone(), container, ifname };
    (alias.len() < ALIAS_LEN).then_some(at)
}

fn container(plan: &mut Plan, config: &Config, at: &Attachment, network: &Network) {
    let name = &at.ifname;
    let sysctl = |family, parameter, value, need| Step::SetSysctl {
        ns: Ns::Container,
        key: Sysctl::interface(family, name, parameter),
        value,
        need,
    };
    if config.detect_duplicates {
        plan.within(sysctl(Family::V6, "enhanced_dad", "1", Need::Wanted));
        plan.within(sysctl(Family::V6, "accept_dad", "1", Need::Wanted));
    } else {
        plan.within(sysctl(Family::V6, "accept_dad", "0", Need::Wanted));
    }
    plan.within(sysctl(Family::V4, "arp_notify", "1", Need::Wanted));
    if network.result.ips.iter().any(|ip| ip.address.family() == Family::V6) {
        let lo = Sysctl::interface(Family::V6, &IfName::lo(), "disable_ipv6");
        plan.within(Step::SetSysctl { ns: Ns::Container, key: lo, value: "0", need: Need::Wanted });
        plan.within(sysctl(Family::V6, "disable_ipv6", "0", Need::Required));
        plan.within(sysctl(Family::V6, "keep_addr_on_down", "1", Need::Required));
    }
    let dad = if config.detect_duplicates { Dad::Perform } else { Dad::Skip };
    for ip in &network.result.ips {
        let (ns, cidr, existing) = (Ns::Container, ip.address, Existing::Refused);
        plan.within(Step::AddAddress { ns, name: name.clone(), cidr, dad, existing });
    }
    plan.within(Step::SetUp { ns: Ns::Container, name: name.clone() });
    if config.detect_duplicates && network.result.ips.iter().any(|ip| ip.address.family() == Family::V6) {
        plan.within(Step::SettleAddresses { name: name.clone() });
    }
    for route in &network.routes {
        plan.within(Step::AddRoute { name: name.clone(), route: route.clone() });
    }
}

fn gateways(plan: &mut Plan, config: &Config, network: &Network, facts: &Facts) -> Result<(), PlanError> {
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
        let (ns, cidr, dad, existing) = (Ns::Host, *gateway, Dad::Skip, Existing::Accepted);
        plan.shared(Step::AddAddress { ns, name: name.clone(), cidr, dad, existing });
        if let Some(mac) = facts.bridge.as_ref().and_then(|link| link.mac.clone()).filter(|_| *name == config.bridge) {
            plan.shared(Step::SetMac { name: name.clone(), mac });
        }
    }
    for family in Family::ALL {
        if network.gateways.iter().any(|gateway| gateway.family() == family) {
            let key = Sysctl::forwarding(family);
            plan.shared(Step::SetSysctl { ns: Ns::Host, key, value: "1", need: Need::Required });
        }
    }
    Ok(())
}

/// The bridge itself takes part in no VLAN but the kernel's own, so that the host needs a port of its own
/// to be the gateway of another one.
fn vlan_link(plan: &mut Plan, config: &Config, names: &Names) {
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
    plan.shared(Step::SetUp { ns: Ns::Host, name: name.clone() });
}

/// Any other IPv4 address of the bridge is in the way of a gateway, an IPv6 address just when the
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

fn addresses(result: &CniResult) -> Vec<Cidr> {
    result.ips.iter().map(|ip| ip.address).collect()
}

fn masquerade_by(plan: &mut Plan, backend: Backend, at: &Attachment, addresses: &[Cidr]) {
    match backend {
        Backend::Iptables => {
            for ensure in masquerade(at, addresses) {
                plan.owned(Step::EnsureRules(ensure));
            }
        }
        Backend::Nftables => plan.owned(Step::EnsureNftables(masquerade::ensure(at, addresses))),
    }
}

/// The chain in which the jumps to the containers' masquerade stand.
pub fn postrouting() -> ChainName {
    ChainName::fixed("POSTROUTING")
}

/// The rules that give packets to other networks the host's address, one change for each family in use.
pub fn masquerade(at: &Attachment, addresses: &[Cidr]) -> Vec<Ensure> {
    let comment = || Match::Comment(at.comment());
    let chain = at.masquerade_chain();
    let in_chain = |matched, target| Rule { chain: chain.clone(), matches: vec![matched, comment()], target };
    let of_family = |family| {
        let own: Vec<Cidr> = addresses.iter().copied().filter(|cidr| cidr.family() == family).collect();
        let mut rules: Vec<Rule> =
            own.iter().map(|cidr| in_chain(Match::Destination(cidr.network()), Target::Accept)).collect();
        rules.dedup();
        rules.push(in_chain(Match::NotDestination(family.multicast()), Target::Masquerade));
        Some(Ensure {
            family,
            table: Table::Nat,
            shared_chains: Vec::new(),
            shared: Vec::new(),
            chain: Some(OwnedChain { name: chain.clone(), rules, existing: ExistingChain::Merge }),
            rules: own.iter().map(|cidr| jump(at, cidr.address())).collect(),
        })
        .filter(|_| !own.is_empty())
    };
    Family::ALL.into_iter().filter_map(of_family).collect()
}

fn jump(at: &Attachment, address: IpAddr) -> Rule {
    Rule {
        chain: postrouting(),
        matches: vec![Match::Source(Cidr::host(address)), Match::Comment(at.comment())],
        target: Target::Jump(at.masquerade_chain()),
    }
}

/// Removes the masquerade of one family: the chain of (network, container) with every jump to it, but for
/// those of addresses that another interface of the container still has.
pub fn remove_masquerade(at: &Attachment, family: Family, own: &[IpAddr], kept: &[IpAddr]) -> Remove {
    let of_family = |addresses: &[IpAddr]| -> Vec<IpAddr> {
        addresses.iter().copied().filter(|address| Family::of(*address) == family).collect()
    };
    Remove {
        family,
        table: Table::Nat,
        chains: vec![OwnedChainRef {
            name: at.masquerade_chain(),
            parents: vec![postrouting()],
            jumps: Jumps::AllBut(of_family(kept)),
        }],
        rules: of_family(own).into_iter().map(|address| jump(at, address)).collect(),
    }
}

/// The interfaces of the result: the bridge, the host's end and the container's end of the veth, and the
/// link to the VLAN if that is the gateway.
pub fn interfaces(
    bridge: &Link,
    host: &Link,
    container: &Link,
    sandbox: &str,
    vlan_link: Option<&Link>,
) -> Vec<Interface> {
    let described = |link: &Link, sandbox: &str| Interface {
        name: link.name.clone(),
        mac: link.mac.as_ref().map(ToString::to_string).unwrap_or_default(),
        sandbox: sandbox.to_owned(),
        ..Interface::default()
    };
    let mut interfaces = vec![described(bridge, ""), described(host, ""), described(container, sandbox)];
    interfaces.extend(vlan_link.map(|link| described(link, "")));
    interfaces
}

#[cfg(test)]
mod tests;
