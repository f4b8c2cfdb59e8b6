//! Carries out the steps of a plan. Each step is one change, or undoes itself if it fails half-way.

use cni_core::error::Error;
use cni_model::plan::{Step, Until};
use cni_model::record::RecordKey;

use crate::firewalld::SourceAdded;
use crate::machine::LinuxHost;

mod address;
mod child;
mod flows;
mod link;
mod link_move;
mod look_up;
mod made;
mod parameter;
mod removal;
mod routing;
mod state_file;
mod tap;
mod traffic;
mod vlan;
mod wait;

use look_up::index;
use made::Creation;

/// Carries out one step; returns the step that undoes it, if only the effect determines it.
pub fn apply(host: &mut LinuxHost, step: &Step) -> Result<Option<Step>, Error> {
    match step {
        Step::CreateLink { ns, link } => return link::create(host, *ns, link),
        Step::RemoveLink { ns, name } => removal::by_name(host, *ns, name)?,
        Step::RemoveLinkByIndex { ns, index } => removal::by_index(host, *ns, *index)?,
        Step::RemoveNumberedLink { number, index } => removal::by_number(host, *number, *index)?,
        Step::SetLink { ns, name, setting } => return link::set(host, *ns, name, setting),
        Step::MoveLink(moved) => return link_move::carry_out(host, moved).map(Some),
        Step::SetPortVlans { ns, name, vlans } => vlan::set_port_vlans(host, *ns, name, vlans)?,
        Step::EnsureVlanLink(link) => vlan::ensure_link(host, link)?,
        Step::AddAddress { ns, name, cidr, dad, if_present } => {
            let added = address::add(host, *ns, name, *cidr, *dad, *if_present)?;
            let undo = Step::RemoveAddress { ns: *ns, name: name.clone(), cidr: *cidr };
            return Ok((added == Creation::Now).then_some(undo));
        }
        Step::EnsureGateway(gateway) => address::ensure_gateway(host, gateway)?,
        Step::RemoveAddress { ns, name, cidr } => address::remove(host, *ns, name, *cidr)?,
        Step::AddRoute { ns, name, route } => {
            let link = index(host, *ns, name)?;
            routing::add_route_of(host, *ns, link, route)?;
        }
        Step::RemoveRoute { ns, name, route } => {
            let link = host.socket(*ns)?.link(name.as_str())?;
            let removed = link.map(|link| host.socket(*ns)?.remove_route(link.index, route).map_err(Error::from));
            let undo = Step::AddRoute { ns: *ns, name: name.clone(), route: route.clone() };
            return Ok(removed.transpose()?.unwrap_or_default().then_some(undo));
        }
        Step::RemoveConnectedRoute { ns, name, dst } => {
            let link = index(host, *ns, name)?;
            host.socket(*ns)?.remove_connected_route(link, *dst)?;
        }
        Step::AddFullRoute { ns, route } => return routing::add_route(host, *ns, route),
        Step::RestoreRoute { ns, route } => routing::restore_route(host, *ns, route)?,
        Step::RemoveFullRoute { ns, route } => return routing::remove_route(host, *ns, route),
        Step::AddRule { ns, rule } => routing::add_rule(host, *ns, rule)?,
        Step::RemoveRule { ns, rule } => routing::remove_rule(host, *ns, rule)?,
        Step::SetShaper { ns, name, shaper } => return traffic::set_shaper(host, *ns, name, shaper),
        Step::RemoveShaper { ns, name } => traffic::remove_shaper(host, *ns, name)?,
        Step::AddRedirect { ns, name, to, rank } => return traffic::add_redirect(host, *ns, (name, to), *rank),
        Step::RemoveRedirect { ns, name, to } => traffic::remove_redirect(host, *ns, name, to)?,
        Step::Await { ns, name, until: Until::AddressesSettled } => wait::until_settled(host, *ns, name)?,
        Step::Await { ns, name, until: Until::Local(addresses) } => wait::until_local(host, *ns, name, addresses)?,
        Step::Await { ns, name, until: Until::PeerGone } => wait::until_peer_gone(host, *ns, name)?,
        Step::Await { until: Until::Moment, .. } => std::thread::sleep(wait::MOMENT),
        Step::Await { ns, name, until: Until::Up } => wait::until_up(host, *ns, name)?,
        Step::SetSysctl { ns, key, value, need } => return parameter::set(host, *ns, key, value, *need),
        Step::EnsureRules { ns, ruleset } => {
            let undo = ruleset.ensure(host.side(*ns)?.netfilter())?;
            return Ok(undo.map(|undo| Step::UndoRules { ns: *ns, undo }));
        }
        Step::RemoveRules { ns, removal } => removal.remove(host.side(*ns)?.netfilter())?,
        Step::UndoRules { ns, undo } => undo.carry_out(host.side(*ns)?.netfilter())?,
        Step::ForgetFlows(stale) => host.forget_flows(std::slice::from_ref(stale)),
        Step::AddSource { zone, address } => {
            let added = host.firewalld.add_source(zone, *address)?;
            let undo = Step::RemoveSource { zone: zone.clone(), address: *address };
            return Ok((added == SourceAdded::Now).then_some(undo));
        }
        Step::RemoveSource { zone, address } => host.firewalld.remove_source(zone, *address)?,
        Step::WriteRecord { key, text } => return write_record(host, key, text),
        Step::RemoveRecord { key } => {
            let earlier = host.records.remove(key)?;
            return Ok(earlier.map(|text| Step::WriteRecord { key: key.clone(), text }));
        }
        Step::WriteStateFile { file, text } => return state_file::write(file, text),
        Step::RemoveStateFile { file, directories } => state_file::remove(file, directories)?,
        Step::TellDaemon(call) => drop(host.ask(call, &|_| None)?),
    }
    Ok(None)
}

/// Writes a record. The undo writes the former content back.
fn write_record(host: &mut LinuxHost, key: &RecordKey, text: &str) -> Result<Option<Step>, Error> {
    let key = key.clone();
    Ok(match host.records.write(&key, text)? {
        None => Some(Step::RemoveRecord { key }),
        Some(earlier) if earlier != text => Some(Step::WriteRecord { key, text: earlier }),
        Some(_) => None,
    })
}
