//! DEL: takes the interface out of the VRF, with its routes, and removes the VRF with its last interface. Usually the
//! runtime removes the interface next, so a route that the kernel no longer accepts does not fail DEL.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_interface::{leftovers, tables};
use cni_model::link::Link;
use cni_model::netns::NetnsError;
use cni_model::plan::{LinkSetting, Ns, Step, SysctlNeed};
use cni_model::routing::MAIN_TABLE;
use cni_plugin::attachment_record::{AttachmentRecord, is_of_another_attachment};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::removal::Removal;

use crate::config::Config;
use crate::facts;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => {}
        Err(NetnsError::Gone { .. }) => return Ok(()),
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    }
    let config = Config::load(request);
    if let Err(error) = &config {
        log::warn!("DEL goes on without the name of the VRF: {}", error.in_full());
    }
    if let Err(error) = tables::lock(request, host) {
        log::warn!("DEL goes on without its lock: {}", error.in_full());
    }
    let at = request.attachment()?;
    let (configured, table) = match config {
        Ok(Config { name, table }) => (vrf_named(&name, host)?, table),
        Err(_) => (None, None),
    };
    if let Some(link) = host.link(Ns::Container, &at.ifname)?
        && let Some(vrf) = vrf_of(&link, host)?
    {
        let own = AttachmentRecord::find(&at, host).and_then(|record| record.link);
        let is_configured = || configured.as_ref().is_some_and(|configured| configured.index == vrf.index);
        if own.is_some_and(|own| own.may_be(&link))
            || is_configured()
                && leftovers::may_be_in_result(&link, request, &at, host)?
                && !is_of_another_attachment(&at, &link, host)?
        {
            return take_out(&at.ifname, &vrf, host);
        }
    }
    // The interface is in no VRF, or in that of another owner. A killed ADD may have left an empty VRF, of the table in the configuration.
    let left = configured.filter(|vrf| table.is_none_or(|table| table == vrf.table));
    left.map_or(Ok(()), |vrf| remove_if_empty(vrf.index, host))
}

/// A VRF of the container.
struct VrfLink {
    index: u32,
    table: u32,
}

impl VrfLink {
    fn of(link: &Link) -> Option<Self> {
        link.vrf_table.map(|table| Self { index: link.index, table })
    }
}

/// The VRF that an interface is in. The configuration may name another one by now.
fn vrf_of(link: &Link, host: &mut dyn Host) -> Result<Option<VrfLink>, Error> {
    let Some(master) = link.master else { return Ok(None) };
    Ok(host.link_by_index(Ns::Container, master)?.as_ref().and_then(VrfLink::of))
}

/// The VRF of a name.
fn vrf_named(name: &IfName, host: &mut dyn Host) -> Result<Option<VrfLink>, Error> {
    Ok(host.link(Ns::Container, name)?.as_ref().and_then(VrfLink::of))
}

fn take_out(ifname: &IfName, vrf: &VrfLink, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| match host.link(Ns::Container, ifname)? {
        Some(link) => release(&link, ifname, vrf.table, host),
        None => Ok(()),
    });
    removal.attempt(|host| remove_if_empty(vrf.index, host));
    removal.finish()
}

/// The kernel removes the routes of an interface that changes its place, and nothing records them: they are restored in
/// any case, and at the second attempt if the first one fails.
fn release(link: &Link, ifname: &IfName, table: u32, host: &mut dyn Host) -> Result<(), Error> {
    let routes = facts::routes(link.index, table, host)?;
    let kept = facts::kept_addresses(ifname, SysctlNeed::Wanted, host)?;
    if let Some([on, _]) = &kept {
        host.apply(on)?;
    }
    let mut removal = Removal::new(host);
    removal.step(&Step::set_link(Ns::Container, ifname, LinkSetting::NoMaster));
    if let Some([_, back]) = &kept {
        removal.step(back);
    }
    // It may have left the VRF for a moment, and be in it again.
    let now = removal.attempt(|host| host.link(Ns::Container, ifname)).flatten();
    let home = if now.is_some_and(|now| now.master == link.master) { table } else { MAIN_TABLE };
    for route in routes {
        let step = Step::RestoreRoute { ns: Ns::Container, route: route.in_table(home) };
        removal.attempt(|host| host.apply(&step).or_else(|_| host.apply(&step)));
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
