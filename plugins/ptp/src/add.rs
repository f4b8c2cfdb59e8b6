//! ADD: asks for facts and addresses, makes a plan, and applies it.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::network::{HostGateway, ResolvedNetwork};
use cni_interface::result::described;
use cni_interface::veth::NewVeth;
use cni_interface::{ipam, masquerade, verify};
use cni_model::plan::Ns;
use cni_plugin::journal::Journal;

use crate::config::Config;
use crate::gateway::RoutedAddress;
use crate::occupant;
use plan::Facts;

mod plan;

/// The place of the container's end in the result.
const CONTAINER: i64 = 1;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let at = request.attachment()?;
    let netns = request.netns().unwrap_or_default();
    journal.host().enter(netns)?;
    let veth = NewVeth::choose(&at, None, journal.host())?;
    let answer = ipam::add(&config.ipam, request, journal)?;
    let network = ResolvedNetwork::decide(answer, HostGateway::None, CONTAINER, &config.dns)?;
    let addresses = RoutedAddress::all(&network.result.ips)?;
    let stale_routes = occupant::evict(&at, &addresses, journal.host())?;
    let mut rules = Vec::new();
    if config.masquerade {
        let own: Vec<Cidr> = network.addresses().collect();
        let backend = masquerade::choose(config.masquerade_backend, &own, journal.host())?;
        rules = masquerade::rulesets(backend, &at, &own);
    }
    let facts = Facts { veth, addresses, stale_routes, rules };
    journal.apply(&plan::plan_add(config.mtu, &at, &network, &facts))?;
    let on_host = verify::present(Ns::Host, &facts.veth.host, journal.host())?;
    let inside = verify::present(Ns::Container, &at.ifname, journal.host())?;
    Ok(CniResult { interfaces: vec![described(&on_host, ""), described(&inside, netns)], ..network.result })
}
