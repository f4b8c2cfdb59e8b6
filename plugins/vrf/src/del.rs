//! DEL: takes the interface out of the VRF, with its routes, and removes the VRF with its last interface. The interface goes
//! next, as a rule; so routes that cannot be given back are told to the log and keep nobody waiting.

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

fn release(link: &Link, ifname: &IfName, table: u32, host: &mut dyn Host) -> Result<(), Error> {
    let routes = facts::routes(link.index, table, host)?;
    let (on, back) =
        facts::kept_addresses(ifname, Need::Wanted, host)?.map_or((None, None), |[on, back]| (Some(on), Some(back)));
    let leave = Step::set_link(Ns::Container, ifname, LinkSetting::NoMaster);
    on.into_iter().chain([leave]).chain(back).try_for_each(|step| host.apply(&step).map(|_| ()))?;
    for route in routes {
        let step = Step::AddFullRoute { ns: Ns::Container, route: route.in_table(MAIN_TABLE) };
        if let Err(error) = host.apply(&step) {
            log::warn!("could not be given back: {step}: {}", error.in_full());
        }
    }
    Ok(())
}

fn remove_if_empty(vrf: &IfName, index: u32, host: &mut dyn Host) -> Result<(), Error> {
    let links = host.links(Ns::Container, LinkQuery::All)?;
    if links.iter().all(|link| link.master != Some(index)) {
        host.apply(&Step::RemoveLink { ns: Ns::Container, name: vrf.clone() })?;
    }
    Ok(())
}
