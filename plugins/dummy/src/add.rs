//! ADD: checks that the name is free, calls the IPAM plugin, and then creates the link.

use cni_core::error::Error;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::network::{HostGateway, ResolvedNetwork};
use cni_interface::result::described;
use cni_interface::{addressing, ipam, naming, verify};
use cni_model::plan::{Dad, IfPresent, LinkKind, NewLink, Ns, Plan, Step};
use cni_plugin::journal::Journal;

use crate::config::Config;

/// The operation in error messages.
const MAKING: &str = "create dummy";

/// The place of the link in the result, which has no other.
const INTERFACE: i64 = 0;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let name = request.attachment()?.ifname;
    let netns = request.netns().unwrap_or_default();
    naming::refuse_pattern(MAKING, &name)?;
    journal.host().enter(netns)?;
    naming::refuse_taken(MAKING, &name, journal.host())?;
    let mac = naming::random_mac(journal.host());
    let answer = ipam::add(&config.ipam, request, journal)?;
    let network = ResolvedNetwork::decide(answer, HostGateway::None, INTERFACE, &config.dns)?;
    journal.apply(&plan(&name, mac, &network))?;
    let link = verify::present(Ns::Container, &name, journal.host())?;
    Ok(CniResult { interfaces: vec![described(&link, netns)], ..network.result })
}

/// Plans the link. Its addresses cannot conflict with another host, since it drops everything it sends.
fn plan(name: &IfName, mac: Mac, network: &ResolvedNetwork) -> Plan {
    let mut plan = Plan::default();
    let (name, mac, if_present) = (name.clone(), Some(mac), IfPresent::Refuse);
    let link = NewLink { name: name.clone(), mac, mtu: None, if_present, kind: LinkKind::Dummy };
    plan.owned(Step::CreateLink { ns: Ns::Container, link });
    addressing::assign(&mut plan, &name, network, Dad::Skip, &[]);
    plan
}
