//! Addresses and routes of an interface inside the container, and the kernel parameters that its traffic depends on.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_model::plan::{Dad, IfPresent, LinkSetting, Ns, Plan, Step, Sysctl, SysctlNeed, Until};

use crate::network::ResolvedNetwork;

/// A parameter of the interface itself, set before it has addresses where the kernel has it:
/// `net/<family>/conf/<interface>/<parameter>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceParameter {
    /// The family of the parameter.
    pub family: Family,
    /// Its name, such as `arp_notify`.
    pub parameter: &'static str,
    /// Its value.
    pub value: &'static str,
}

/// Plans the addresses of an interface in the container, sets it up, and then plans its routes. With
/// [`Dad::Perform`] the IPv6 addresses are waited for.
///
/// ```
/// use cni_core::names::IfName;
/// use cni_core::result::{CniResult, Dns, IpConfig};
/// use cni_interface::addressing::assign;
/// use cni_interface::network::{HostGateway, ResolvedNetwork};
/// use cni_model::plan::{Dad, Plan};
///
/// let ip = IpConfig { interface: None, address: "10.1.2.5/24".parse()?, gateway: None };
/// let answer = CniResult { ips: vec![ip], ..CniResult::default() };
/// let network = ResolvedNetwork::decide(answer, HostGateway::None, 0, &Dns::default()).expect("a network");
/// let mut plan = Plan::default();
/// assign(&mut plan, &IfName::parse("eth0")?, &network, Dad::Skip, &[]);
/// assert_eq!(plan.to_string(), "\
/// within container: addr add 10.1.2.5/24 dev eth0
/// within container: link set eth0 up
/// ");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn assign(plan: &mut Plan, name: &IfName, network: &ResolvedNetwork, dad: Dad, settings: &[InterfaceParameter]) {
    for InterfaceParameter { family, parameter, value } in settings {
        plan.within(set(Ns::Container, Sysctl::interface(*family, name, parameter), value, SysctlNeed::Wanted));
    }
    let has_ipv6 = network.addresses().any(|address| address.family() == Family::V6);
    if has_ipv6 {
        enable_ipv6(plan, name);
    }
    for cidr in network.addresses() {
        let (ns, name, if_present) = (Ns::Container, name.clone(), IfPresent::Refuse);
        plan.within(Step::AddAddress { ns, name, cidr, dad, if_present });
    }
    plan.within(Step::set_link(Ns::Container, name, LinkSetting::Up));
    if has_ipv6 && dad == Dad::Perform {
        plan.within(Step::Await { ns: Ns::Container, name: name.clone(), until: Until::AddressesSettled });
    }
    for route in &network.routes {
        plan.within(Step::AddRoute { ns: Ns::Container, name: name.clone(), route: route.clone() });
    }
}

/// Plans to wait until the kernel accepts packets to the IPv6 ones of these new addresses of an interface. Until then it drops them, and does
/// not answer neighbour solicitations.
pub fn await_local(plan: &mut Plan, ns: Ns, name: &IfName, addresses: impl Iterator<Item = Cidr>) {
    let mut awaited: Vec<Ipv6Addr> = Vec::new();
    for cidr in addresses {
        match cidr.address() {
            IpAddr::V6(address) if !awaited.contains(&address) => awaited.push(address),
            IpAddr::V6(_) | IpAddr::V4(_) => {}
        }
    }
    if !awaited.is_empty() {
        plan.within(Step::Await { ns, name: name.clone(), until: Until::Local(awaited) });
    }
}

/// Plans that the host forwards packets of these families, each once. It stays so: other containers need it as well.
pub fn forward(plan: &mut Plan, families: impl Iterator<Item = Family>) {
    let wanted: BTreeSet<Family> = families.collect();
    for family in wanted {
        plan.shared(set(Ns::Host, Sysctl::forwarding(family), "1", SysctlNeed::Required));
    }
}

/// Runtimes switch IPv6 off in new containers. Addresses stay when the interface is set down for a while.
fn enable_ipv6(plan: &mut Plan, name: &IfName) {
    let mut set = |name: &IfName, parameter, value, need| {
        plan.within(set(Ns::Container, Sysctl::interface(Family::V6, name, parameter), value, need));
    };
    set(&IfName::lo(), "disable_ipv6", "0", SysctlNeed::Wanted);
    set(name, "disable_ipv6", "0", SysctlNeed::Required);
    set(name, "keep_addr_on_down", "1", SysctlNeed::Required);
}

/// The step that sets a kernel parameter.
pub fn set(ns: Ns, key: Sysctl, value: &str, need: SysctlNeed) -> Step {
    Step::SetSysctl { ns, key, value: value.to_owned(), need }
}
