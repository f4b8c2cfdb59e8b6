//! Carries out the steps of a plan. Each step is one change, or undoes itself if it fails half-way.

mod answer;
mod flows;
mod link;
mod new_link;
mod routing;
mod traffic;
mod vlan;
mod wait;

use std::io::{self, ErrorKind};

use cni_core::error::Error;
use cni_core::fail;
use cni_files::{read_private, remove_empty, remove_private, replace_private};
use cni_kernel::sysctl;
use cni_model::plan::{Ns, Step, Sysctl, SysctlNeed, Until};
use cni_model::state_file::StateFile;
use cni_plugin::host::Host as _;

use answer::{Creation, index};

use crate::machine::LinuxHost;

/// Carries out one step; returns the step that undoes it, if only the effect determines it.
pub fn apply(host: &mut LinuxHost, step: &Step) -> Result<Option<Step>, Error> {
    match step {
        Step::CreateLink { ns, link } => return new_link::create(host, *ns, link),
        Step::RemoveLink { ns, name } => link::remove(host, *ns, name)?,
        Step::RemoveLinkByIndex { ns, index } => link::remove_by_index(host, *ns, *index)?,
        Step::RemoveNumberedLink { number, index } => link::remove_numbered(host, *number, *index)?,
        Step::SetLink { ns, name, setting } => return link::set(host, *ns, name, setting),
        Step::MoveLink(moved) => return link::move_to(host, moved).map(Some),
        Step::SetPortVlans { ns, name, vlans } => vlan::set_port_vlans(host, *ns, name, vlans)?,
        Step::EnsureVlanLink(link) => vlan::ensure_link(host, link)?,
        Step::AddAddress { ns, name, cidr, dad, if_present } => {
            let added = routing::add_address(host, *ns, name, *cidr, *dad, *if_present)?;
            let undo = Step::RemoveAddress { ns: *ns, name: name.clone(), cidr: *cidr };
            return Ok((added == Creation::Now).then_some(undo));
        }
        Step::EnsureGateway(gateway) => routing::ensure_gateway(host, gateway)?,
        Step::RemoveAddress { ns, name, cidr } => routing::remove_address(host, *ns, name, *cidr)?,
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
        Step::SetSysctl { ns, key, value, need } => return set_sysctl(host, *ns, key, value, *need),
        Step::EnsureRules { ns, ruleset } => {
            let undo = ruleset.ensure(host.side(*ns)?.netfilter())?;
            return Ok(undo.map(|undo| Step::UndoRules { ns: *ns, undo }));
        }
        Step::RemoveRules { ns, removal } => removal.remove(host.side(*ns)?.netfilter())?,
        Step::UndoRules { ns, undo } => undo.carry_out(host.side(*ns)?.netfilter())?,
        Step::ForgetFlows(stale) => host.forget_flows(std::slice::from_ref(stale)),
        Step::AddSource { zone, address } => {
            let is_new = host.firewalld.add_source(zone, *address)?;
            return Ok(is_new.then(|| Step::RemoveSource { zone: zone.clone(), address: *address }));
        }
        Step::RemoveSource { zone, address } => host.firewalld.remove_source(zone, *address)?,
        Step::Record { at, namespace, parts } => return host.ledger.change(at, namespace.as_deref(), parts),
        Step::WriteStateFile { file, text } => return write_state_file(file, text),
        Step::RemoveStateFile { file, directories } => {
            remove_private(&file.path())?;
            remove_empty(directories)?;
        }
        Step::TellDaemon(call) => drop(host.ask_daemon(call, &|_| None)?),
    }
    Ok(None)
}

/// Writes a parameter; returns what writes the earlier value back.
fn set_sysctl(
    host: &mut LinuxHost,
    ns: Ns,
    key: &Sysctl,
    value: &str,
    need: SysctlNeed,
) -> Result<Option<Step>, Error> {
    let written = host.side(ns)?.within(|| Ok(sysctl::ensure(key, value)));
    match (written, need) {
        (Ok(Ok(earlier)), _) => {
            Ok(earlier.map(|earlier| Step::SetSysctl { ns, key: key.clone(), value: earlier, need }))
        }
        (Ok(Err(error)), SysctlNeed::Wanted) if is_out_of_reach(&error) => {
            log::debug!("{} could not be set, and stays as it is: {error}", key.path());
            Ok(None)
        }
        (Ok(Err(source)) | Err(source), SysctlNeed::Wanted | SysctlNeed::Required) => {
            let path = sysctl::path(key);
            Err(fail!(Kernel, "failed to write {value:?} to {path}", details: "{source}"))
        }
    }
}

/// Whether a kernel parameter does not exist here, or may not be written. Anything else, such as a lack of descriptors, may pass.
fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Writes a file; returns what writes the earlier one back, or removes it with the directories that were made for it.
fn write_state_file(file: &StateFile, text: &str) -> Result<Option<Step>, Error> {
    let earlier = read_private(&file.path())?;
    if earlier.as_deref() == Some(text.as_bytes()) {
        return Ok(None);
    }
    let (directories, file) = (replace_private(&file.path(), text.as_bytes())?, file.clone());
    Ok(Some(match earlier {
        Some(earlier) => Step::WriteStateFile { file, text: String::from_utf8_lossy(&earlier).into_owned() },
        None => Step::RemoveStateFile { file, directories },
    }))
}
