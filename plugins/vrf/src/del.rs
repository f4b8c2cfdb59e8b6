//! DEL: takes the interface out of the VRF, with its routes, and removes the VRF with its last interface. The runtime removes
//! the interface next, as a rule, so a route that the kernel no longer accepts does not fail DEL.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_interface::tables;
use cni_plugin::host::{Host, LinkQuery, NetnsError};
use cni_plugin::link::Link;
use cni_plugin::plan::{LinkSetting, Need, Ns, Step};
use cni_plugin::removal::Removal;
use cni_plugin::routing::MAIN_TABLE;

use crate::config::Config;
use crate::facts;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = match Config::load(request) {
        Ok(config) => Config { table: None, ..config },
        Err(error) => {
            log::warn!("nothing is taken out of a VRF: {}", error.in_full());
            return Ok(());
        }
    };
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => {}
        Err(NetnsError::Gone { .. }) => return Ok(()),
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    }
    if let Err(error) = tables::lock(request, host) {
        log::warn!("DEL goes on without its lock: {}", error.in_full());
    }
    match host.link(Ns::Container, &config.name)? {
        Some(Link { index, vrf_table: Some(table), .. }) => {
            take_out(&request.attachment()?.ifname, &config.name, (index, table), host)
        }
        Some(_) | None => Ok(()),
    }
}

fn take_out(ifname: &IfName, vrf: &IfName, (index, table): (u32, u32), host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| match host.link(Ns::Container, ifname)? {
        Some(link) if link.master == Some(index) => release(&link, ifname, table, host),
        Some(_) | None => Ok(()),
    });
    removal.attempt(|host| remove_if_empty(vrf, index, host));
    removal.finish()
}

/// The kernel removes the routes of an interface that changes its place, and nothing records them: they are restored in
/// any case, and at the second attempt if the first one fails.
fn release(link: &Link, ifname: &IfName, table: u32, host: &mut dyn Host) -> Result<(), Error> {
    let routes = facts::routes(link.index, table, host)?;
    let kept = facts::kept_addresses(ifname, Need::Wanted, host)?;
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

fn remove_if_empty(vrf: &IfName, index: u32, host: &mut dyn Host) -> Result<(), Error> {
    let links = host.links(Ns::Container, LinkQuery::All)?;
    if links.iter().all(|link| link.master != Some(index)) {
        host.apply(&Step::RemoveLink { ns: Ns::Container, name: vrf.clone() })?;
    }
    Ok(())
}
