//! ADD: creates the VRF unless it exists, and puts the interface into it with its addresses and routes.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::{naming, tables};
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step, SysctlNeed, Until};
use cni_model::routing::{FullRoute, MAIN_TABLE};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::Config;
use crate::facts;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let result = facts::prev_result(request)?;
    let ifname = request.attachment()?.ifname;
    let host = journal.host();
    naming::refuse_pattern("create vrf", &config.name)?;
    host.enter(request.netns().unwrap_or_default())?;
    tables::lock(request, host)?;
    let vrf = facts::vrf(&config, host)?;
    let interface = facts::interface(&ifname, host)?;
    refuse_other_master(&interface, vrf.as_ref().map(|(link, _)| link.index), host)?;
    let table = match (vrf.as_ref().map(|(_, table)| *table), config.table) {
        (Some(table), _) | (None, Some(table)) => table,
        (None, None) => tables::free(1, &tables::taken(host)?),
    };
    let routes = facts::routes(interface.index, MAIN_TABLE, host)?;
    let mut plan = Plan::default();
    make(&mut plan, &config.name, table, vrf.map(|(link, _)| link).as_ref());
    if interface.master.is_none() {
        let kept = facts::kept_addresses(&ifname, SysctlNeed::Required, host)?;
        put_under(&mut plan, (&config.name, &ifname), interface.up, &routes, kept);
    }
    routes.iter().for_each(|route| {
        plan.owned(Step::AddFullRoute { ns: Ns::Container, route: route.in_table(table) });
    });
    journal.apply(&plan)?;
    Ok(result)
}

/// The interface may be under this VRF already.
fn refuse_other_master(interface: &Link, vrf: Option<u32>, host: &mut dyn Host) -> Result<(), Error> {
    let Some(index) = interface.master.filter(|master| Some(*master) != vrf) else { return Ok(()) };
    let master = host.link_by_index(Ns::Container, index)?.map_or_else(|| index.to_string(), |link| link.name);
    let ifname = &interface.name;
    Err(fail!(Conflict, "interface {ifname} has already a master set: {master}"))
}

fn make(plan: &mut Plan, name: &IfName, table: u32, found: Option<&Link>) {
    if found.is_none() {
        let link = NewLink {
            name: name.clone(),
            mac: None,
            mtu: None,
            if_present: IfPresent::Refuse,
            kind: LinkKind::Vrf { table },
        };
        plan.owned(Step::CreateLink { ns: Ns::Container, link });
    }
    if found.is_none_or(|link| !link.up) {
        plan.owned(Step::set_link(Ns::Container, name, LinkSetting::Up));
    }
}

/// Puts the interface into the VRF. The kernel sets it down and up, which removes its routes. So they are removed
/// before, one by one: then each is restored if the ADD fails later. Its IPv6 addresses would be removed too without a
/// parameter, which `kept` sets.
fn put_under(
    plan: &mut Plan,
    (vrf, ifname): (&IfName, &IfName),
    is_up: bool,
    routes: &[FullRoute],
    kept: Option<[Step; 2]>,
) {
    let ns = Ns::Container;
    let (on, back) = kept.map_or((None, None), |[on, back]| (Some(on), Some(back)));
    on.into_iter().for_each(|step| plan.owned(step));
    let alone = routes.iter().rev().filter(|route| !route.is_one_of_several);
    alone.for_each(|route| plan.owned(Step::RemoveFullRoute { ns, route: route.clone() }));
    plan.owned(Step::set_link(ns, ifname, LinkSetting::Master(vrf.clone())));
    back.into_iter().for_each(|step| plan.owned(step));
    if is_up {
        plan.within(Step::Await { ns, name: ifname.clone(), until: Until::AddressesSettled });
    }
}
