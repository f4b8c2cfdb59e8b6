//! The vrf plugin: puts the interface that an earlier plugin has made into a VRF, a link with its own routing table,
//! so that the networks of two interfaces may overlap.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::version::Version;
use cni_interface::{addressing, leftovers, naming, tables, verify};
use cni_model::link::Link;
use cni_model::plan::{LinkKind, LinkSetting, Ns, Plan, Step, Sysctl, SysctlNeed, Until};
use cni_model::routing::{BY_KERNEL, FullRoute, MAIN_TABLE};
use cni_plugin::attachment_record::{AttachmentRecord, is_of_another_attachment};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;
use serde::Deserialize;

/// The plugin.
pub struct Vrf;

impl Plugin for Vrf {
    fn kind(&self) -> &'static str {
        "vrf"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_3_1
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(drop)
    }

    /// Creates the VRF unless it exists, and puts the interface into it with its addresses and routes.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let result = prev_result(request)?;
        let ifname = request.attachment()?.ifname;
        let host = journal.host();
        naming::refuse_pattern("create vrf", &config.name)?;
        host.enter(request.netns().unwrap_or_default())?;
        tables::lock(request, host)?;
        let vrf = find(&config, host)?;
        let interface = host.link(Ns::Container, &ifname)?;
        let interface = interface.ok_or_else(|| fail!(Kernel, "could not get link by name {ifname}"))?;
        refuse_other_master(&interface, vrf.as_ref().map(|(link, _)| link.index), host)?;
        let table = match (vrf.as_ref().map(|(_, table)| *table), config.table) {
            (Some(table), _) | (None, Some(table)) => table,
            (None, None) => tables::free(1, &tables::taken(host)?),
        };
        let routes = own_routes(interface.index, MAIN_TABLE, host)?;
        let mut plan = Plan::default();
        if vrf.is_none() {
            plan.owned(naming::create(config.name.clone(), LinkKind::Vrf { table }, None, None));
        }
        if vrf.is_none_or(|(link, _)| !link.up) {
            plan.owned(Step::set_link(Ns::Container, &config.name, LinkSetting::Up));
        }
        if interface.master.is_none() {
            let kept = kept_addresses(&ifname, SysctlNeed::Required, host)?;
            put_under(&mut plan, (&config.name, &ifname), interface.up, &routes, kept);
        }
        routes.iter().for_each(|route| {
            plan.owned(Step::AddFullRoute { ns: Ns::Container, route: route.in_table(table) });
        });
        journal.apply(&plan)?;
        Ok(result)
    }

    /// Takes the interface out of the VRF, with its routes, and removes the VRF with its last interface. Usually the runtime
    /// removes the interface next, so a route that the kernel no longer accepts does not fail DEL.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        if !host.enter_if_exists(request.netns().unwrap_or_default())? {
            return Ok(());
        }
        let config = Config::load(request);
        if let Err(error) = &config {
            log::warn!("DEL goes on without the name of the VRF: {}", error.in_full());
        }
        tables::lock_or_warn(request, host);
        let at = request.attachment()?;
        let (configured, wanted) = match config {
            Ok(Config { name, table }) => (host.link(Ns::Container, &name)?.and_then(with_table), table),
            Err(_) => (None, None),
        };
        // The configuration may name another VRF by now than that of the interface.
        if let Some(link) = host.link(Ns::Container, &at.ifname)?
            && let Some(master) = link.master
            && let Some((vrf, table)) = host.link_by_index(Ns::Container, master)?.and_then(with_table)
        {
            let own = AttachmentRecord::find(&at, host).and_then(|record| record.link);
            let is_configured = || configured.as_ref().is_some_and(|(configured, _)| configured.index == vrf.index);
            if own.is_some_and(|own| own.may_be(&link))
                || is_configured()
                    && leftovers::may_be_in_result(&link, request, &at, host)?
                    && !is_of_another_attachment(&at, &link, host)?
            {
                return take_out(&link, &at.ifname, vrf.index, table, host);
            }
        }
        // The interface is in no VRF, or in that of another owner. A killed ADD may have left an empty VRF, of the table in the configuration.
        let left = configured.filter(|(_, table)| wanted.is_none_or(|wanted| wanted == *table));
        left.map_or(Ok(()), |(vrf, _)| remove_if_empty(vrf.index, host))
    }

    /// Verifies that the interface is in the VRF.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        prev_result(request)?;
        let ifname = request.attachment()?.ifname;
        host.enter(request.netns().unwrap_or_default())?;
        let name = config.name.to_string();
        let Some((vrf, _)) = find(&config, host)? else {
            return Err(fail!(CheckFailed, "could not find VRF {name}: Link not found"));
        };
        verify::up(Ns::Container, &vrf)?;
        let link = host.link(Ns::Container, &ifname)?;
        if link.is_some_and(|link| link.master == Some(vrf.index)) {
            return Ok(());
        }
        Err(fail!(CheckFailed, "failed to find {ifname} associated to vrf {name}"))
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        Config::load(request)?;
        verify::known_kind("vrf", host)
    }
}

/// A VRF that is wanted.
struct Config {
    name: IfName,
    /// Its table; none for one that the plugin chooses.
    table: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    vrfname: String,
    table: u32,
}

impl Config {
    fn load(request: &Request) -> Result<Self, Error> {
        let Keys { vrfname, table } = request.decode()?;
        let name = IfName::parse(&vrfname).map_err(|_| {
            let details = format!("vrfname {vrfname:?} is no name of a link");
            fail!(InvalidConfig, "configuration is expected to have a valid vrf name", details: "{details}")
        })?;
        Ok(Self { name, table: Some(table).filter(|table| *table != 0) })
    }
}

/// The result of the plugins before.
fn prev_result(request: &Request) -> Result<CniResult, Error> {
    request.prev_result()?.ok_or_else(|| fail!(InvalidConfig, "missing prevResult from earlier plugin"))
}

/// The wanted VRF with its table, if it exists.
fn find(config: &Config, host: &mut dyn Host) -> Result<Option<(Link, u32)>, Error> {
    let Some(link) = host.link(Ns::Container, &config.name)? else { return Ok(None) };
    let name = link.name.clone();
    let Some(table) = link.vrf_table else {
        let kind = link.kind.unwrap_or_else(|| "none".to_owned());
        return Err(fail!(Conflict, "Netlink {name} is not a VRF", details: "it is a link of kind {kind}"));
    };
    if config.table.is_some_and(|wanted| wanted != table) {
        return Err(fail!(Conflict, "VRF {name} already exist with different routing table {table}"));
    }
    Ok(Some((link, table)))
}

/// The interface may be under this VRF already.
fn refuse_other_master(interface: &Link, vrf: Option<u32>, host: &mut dyn Host) -> Result<(), Error> {
    let Some(index) = interface.master.filter(|master| Some(*master) != vrf) else { return Ok(()) };
    let master = host.link_by_index(Ns::Container, index)?.map_or_else(|| index.to_string(), |link| link.name);
    let ifname = &interface.name;
    Err(fail!(Conflict, "interface {ifname} has already a master set: {master}"))
}

/// The routes of an interface in a table, except those that the kernel adds itself; routes whose next hop is in the
/// network of another route come after it.
fn own_routes(link: u32, table: u32, host: &mut dyn Host) -> Result<Vec<FullRoute>, Error> {
    let mut routes = tables::routes_of(link, table, host)?;
    routes.retain(|route| route.protocol != BY_KERNEL);
    routes.sort_by_key(|route| route.gateway.is_some());
    Ok(routes)
}

/// The steps that let an interface keep its IPv6 addresses while it is down for a moment, and that end this; none where it
/// does so anyway, or has no IPv6.
fn kept_addresses(ifname: &IfName, need: SysctlNeed, host: &mut dyn Host) -> Result<Option<[Step; 2]>, Error> {
    let key = Sysctl::interface(Family::V6, ifname, "keep_addr_on_down");
    let before = host.files().sysctl(Ns::Container, &key)?.filter(|value| value != "1");
    let set = |value: &str| addressing::set(Ns::Container, key.clone(), value, need);
    Ok(before.map(|before| [set("1"), set(&before)]))
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

/// A link with its table, if it is a VRF.
fn with_table(link: Link) -> Option<(Link, u32)> {
    link.vrf_table.map(|table| (link, table))
}

fn take_out(link: &Link, ifname: &IfName, vrf: u32, table: u32, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| release(link, ifname, table, host));
    removal.attempt(|host| remove_if_empty(vrf, host));
    removal.finish()
}

/// The kernel removes the routes of an interface that changes its place, and nothing records them, nor the parameter that keeps its
/// addresses: they are restored in any case, and at the second attempt if the first one fails.
fn release(link: &Link, ifname: &IfName, table: u32, host: &mut dyn Host) -> Result<(), Error> {
    let routes = own_routes(link.index, table, host)?;
    let kept = kept_addresses(ifname, SysctlNeed::Wanted, host)?;
    if let Some([on, _]) = &kept {
        host.apply(on)?;
    }
    let mut removal = Removal::new(host);
    removal.step(&Step::set_link(Ns::Container, ifname, LinkSetting::NoMaster));
    let twice = |step: &Step, host: &mut dyn Host| host.apply(step).or_else(|_| host.apply(step));
    if let Some([_, back]) = &kept {
        removal.attempt(|host| twice(back, host));
    }
    // It may have left the VRF for a moment, and be in it again.
    let now = removal.attempt(|host| host.link(Ns::Container, ifname)).flatten();
    let home = if now.is_some_and(|now| now.master == link.master) { table } else { MAIN_TABLE };
    for route in routes {
        let step = Step::RestoreRoute { ns: Ns::Container, route: route.in_table(home) };
        removal.attempt(|host| twice(&step, host));
    }
    removal.finish()
}

fn remove_if_empty(index: u32, host: &mut dyn Host) -> Result<(), Error> {
    let links = host.links(Ns::Container, LinkQuery::All)?;
    if links.iter().all(|link| link.master != Some(index)) {
        leftovers::remove_found(index, host)?;
    }
    Ok(())
}
