//! Carries out the steps of a plan on the machine in memory.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_model::link::{Address, Link};
use cni_model::plan::{IfPresent, LinkKind, LinkMove, LinkSetting, NewLink, Ns, Step, Sysctl, SysctlNeed, Until};
use cni_plugin::host::Host as _;

use super::FakeHost;
use super::kernel::{Kernel, Space};
use super::kernel_error::refuse;
use super::vlan::DEFAULT;

impl FakeHost {
    /// Carries out a step: all of it, or nothing.
    pub(super) fn carry_out_step(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        match step {
            Step::EnsureRules { ns, ruleset } => {
                let undo = ruleset.ensure(self.netfilter(*ns)?)?;
                Ok(undo.map(|undo| Step::UndoRules { ns: *ns, undo }))
            }
            Step::RemoveRules { ns, removal } => {
                removal.remove(self.netfilter(*ns)?)?;
                Ok(None)
            }
            Step::UndoRules { ns, undo } => {
                undo.carry_out(self.netfilter(*ns)?)?;
                Ok(None)
            }
            Step::ForgetFlows(stale) => {
                self.forgotten.push(stale.to_string());
                Ok(None)
            }
            Step::AddSource { zone, address } => {
                let undo = Step::RemoveSource { zone: zone.clone(), address: *address };
                Ok(self.firewalld.add(zone, *address)?.then_some(undo))
            }
            Step::RemoveSource { zone, address } => {
                self.firewalld.remove(zone, *address);
                Ok(None)
            }
            Step::WriteRecord { key, text } => Ok(self.records.write(key, text)),
            Step::RemoveRecord { key } => Ok(self.records.remove(key)),
            Step::WriteStateFile { file, text } => Ok(match self.state_files.insert(file.path(), text.clone()) {
                None => Some(Step::RemoveStateFile { file: file.clone(), directories: Vec::new() }),
                Some(earlier) => Some(Step::WriteStateFile { file: file.clone(), text: earlier }),
            }),
            Step::RemoveStateFile { file, directories: _ } => {
                self.state_files.remove(&file.path());
                Ok(None)
            }
            Step::TellDaemon(call) => {
                self.daemon.answer(call)?;
                Ok(None)
            }
            Step::CreateLink { ns, .. }
            | Step::RemoveLink { ns, .. }
            | Step::RemoveLinkByIndex { ns, .. }
            | Step::SetLink { ns, .. }
            | Step::SetPortVlans { ns, .. }
            | Step::AddAddress { ns, .. }
            | Step::RemoveAddress { ns, .. }
            | Step::AddRoute { ns, .. }
            | Step::RemoveRoute { ns, .. }
            | Step::RemoveConnectedRoute { ns, .. }
            | Step::AddFullRoute { ns, .. }
            | Step::RestoreRoute { ns, .. }
            | Step::RemoveFullRoute { ns, .. }
            | Step::AddRule { ns, .. }
            | Step::RemoveRule { ns, .. }
            | Step::SetShaper { ns, .. }
            | Step::RemoveShaper { ns, .. }
            | Step::AddRedirect { ns, .. }
            | Step::RemoveRedirect { ns, .. }
            | Step::Await { ns, .. }
            | Step::SetSysctl { ns, .. } => self.on_copy(*ns, step),
            Step::MoveLink(moved) => self.on_copy(moved.from, step),
            Step::EnsureVlanLink(_) | Step::EnsureGateway(_) => self.on_copy(Ns::Host, step),
            Step::RemoveNumberedLink { number, index } => {
                if let Some(space) = self.kernel.numbered(*number) {
                    self.kernel.forget(&space, *index);
                }
                Ok(None)
            }
        }
    }

    fn on_copy(&mut self, ns: Ns, step: &Step) -> Result<Option<Step>, Error> {
        let spaces = |ns| self.space(ns);
        let mut copy = self.kernel.clone();
        let undo = change(&mut copy, &spaces(ns)?, &spaces, step)?;
        self.kernel = copy;
        Ok(undo)
    }
}

/// Finds the namespace that a veth's other end is in.
type Spaces<'a> = &'a dyn Fn(Ns) -> Result<Space, Error>;

fn change(kernel: &mut Kernel, space: &Space, spaces: Spaces<'_>, step: &Step) -> Result<Option<Step>, Error> {
    match step {
        Step::CreateLink { ns, link } => {
            let made = create(kernel, space, spaces, link)?;
            return Ok(made.then(|| Step::RemoveLink { ns: *ns, name: link.name.clone() }));
        }
        Step::RemoveLink { name, .. } => {
            if let Some(index) = kernel.find_mut(space, name.as_str()).map(|entry| entry.link.index) {
                kernel.forget(space, index);
            }
        }
        Step::RemoveLinkByIndex { ns, index } => {
            if kernel.by_index_mut(space, *index).is_none() {
                return refuse(format!("there is no link {index} in {ns}"));
            }
            kernel.forget(space, *index);
        }
        Step::SetLink { ns, name, setting } => {
            let undo = set(kernel, space, name, setting)?;
            return Ok(undo.map(|setting| Step::SetLink { ns: *ns, name: name.clone(), setting }));
        }
        Step::MoveLink(moved) => return relocate(kernel, space, &spaces(moved.to)?, moved).map(Some),
        Step::SetPortVlans { name, vlans, .. } => kernel.set_port_vlans(space, name.as_str(), vlans)?,
        Step::EnsureVlanLink(link) => kernel.ensure_vlan_link(link)?,
        Step::AddAddress { ns, name, cidr, dad: _, if_present } => {
            let entry = kernel.present(space, name.as_str())?;
            if entry.addresses.iter().any(|address| address.cidr == *cidr) {
                return if *if_present == IfPresent::Accept { Ok(None) } else { refuse("file exists") };
            }
            entry.addresses.push(Address { cidr: *cidr, tentative: false, dad_failed: false });
            return Ok(Some(Step::RemoveAddress { ns: *ns, name: name.clone(), cidr: *cidr }));
        }
        Step::EnsureGateway(gateway) => {
            let entry = kernel.present(space, gateway.link.as_str())?;
            let unwanted = gateway.unwanted(&entry.addresses)?;
            entry.addresses.retain(|address| !unwanted.contains(&address.cidr));
            if !gateway.is_among(&entry.addresses) {
                entry.addresses.push(Address { cidr: gateway.cidr, tentative: false, dad_failed: false });
            }
        }
        Step::RemoveAddress { name, cidr, .. } => {
            if let Some(entry) = kernel.find_mut(space, name.as_str()) {
                entry.addresses.retain(|address| address.cidr != *cidr);
            }
        }
        Step::AddRoute { name, route, .. } => kernel.add_route(space, name.as_str(), route)?,
        Step::RemoveRoute { ns, name, route } => {
            let removed = kernel.remove_route(space, name.as_str(), route);
            return Ok(removed.then(|| Step::AddRoute { ns: *ns, name: name.clone(), route: route.clone() }));
        }
        Step::RemoveConnectedRoute { name, dst, .. } => kernel.remove_connected_route(space, name.as_str(), *dst),
        Step::AddFullRoute { ns, route } => {
            let undo = Step::RemoveFullRoute { ns: *ns, route: route.clone() };
            return Ok(kernel.add_full_route(space, route)?.then_some(undo));
        }
        Step::RestoreRoute { route, .. } => {
            kernel.add_full_route(space, route)?;
        }
        Step::RemoveFullRoute { ns, route } => {
            let undo = Step::AddFullRoute { ns: *ns, route: route.clone() };
            return Ok(kernel.remove_full_route(space, route).then_some(undo));
        }
        Step::AddRule { rule, .. } => kernel.add_rule(space, *rule),
        Step::RemoveRule { rule, .. } => kernel.remove_rule(space, rule),
        Step::SetShaper { ns, name, shaper } => return kernel.set_shaper(space, (*ns, name), *shaper),
        Step::RemoveShaper { name, .. } => kernel.remove_shaper(space, name.as_str()),
        Step::AddRedirect { ns, name, to, rank: _ } => return kernel.add_redirect(space, *ns, name, to),
        Step::RemoveRedirect { name, to, .. } => kernel.remove_redirect(space, name.as_str(), to.as_str()),
        Step::Await { name, until, .. } => wait(kernel, space, name, until)?,
        Step::SetSysctl { ns, key, value, need } => return write(kernel, space, (*ns, key), value, *need),
        Step::RemoveNumberedLink { .. }
        | Step::EnsureRules { .. }
        | Step::RemoveRules { .. }
        | Step::UndoRules { .. }
        | Step::ForgetFlows(_)
        | Step::AddSource { .. }
        | Step::RemoveSource { .. }
        | Step::WriteRecord { .. }
        | Step::RemoveRecord { .. }
        | Step::WriteStateFile { .. }
        | Step::RemoveStateFile { .. }
        | Step::TellDaemon(_) => return refuse(format!("no step of the kernel: {step}")),
    }
    Ok(None)
}

/// Creates a link; returns whether it was created, or existed and is accepted.
fn create(kernel: &mut Kernel, space: &Space, spaces: Spaces<'_>, link: &NewLink) -> Result<bool, Error> {
    let NewLink { name, mac, mtu, if_present, kind } = link;
    if kernel.find_mut(space, name.as_str()).is_some() {
        return if *if_present == IfPresent::Accept { Ok(false) } else { refuse(format!("{name} exists")) };
    }
    let vlan_filtering = match kind {
        LinkKind::Bridge { vlan_filtering } => Some(*vlan_filtering),
        LinkKind::Child { master, kind } => return kernel.add_child(space, &spaces(master.ns)?, link, (master, kind)),
        LinkKind::Veth { .. } | LinkKind::Dummy | LinkKind::Ifb | LinkKind::Vrf { .. } | LinkKind::Tap { .. } => None,
    };
    let vrf_table = if let LinkKind::Vrf { table } = kind { Some(*table) } else { None };
    let tap = if let LinkKind::Tap { tap, .. } = kind { Some(*tap) } else { None };
    let new =
        Link { kind: Some(kind.name().to_owned()), mtu: mtu.unwrap_or(1500), tx_queue_length: 1000, ..Link::default() };
    let alias = if let LinkKind::Tap { alias, .. } = kind { alias.clone() } else { None };
    let near = Link { name: name.to_string(), mac: mac.clone(), vlan_filtering, tap, vrf_table, alias, ..new.clone() };
    let near = kernel.add(space, near);
    if let LinkKind::Veth { peer } = kind {
        let there = spaces(peer.ns)?;
        if kernel.find_mut(&there, peer.name.as_str()).is_some() {
            return refuse(format!("{} exists", peer.name));
        }
        let far = kernel.add(&there, Link { name: peer.name.to_string(), mac: Some(peer.mac.clone()), ..new });
        kernel.pair((space, near), (&there, far));
    }
    Ok(true)
}

/// The link keeps what it is, and loses what the namespace gave it.
fn relocate(kernel: &mut Kernel, space: &Space, to: &Space, moved: &LinkMove) -> Result<Step, Error> {
    let Some(before) = kernel.by_index_mut(space, moved.index).map(|entry| entry.link.clone()) else {
        return refuse(format!("there is no link {} in {}", moved.index, moved.from));
    };
    let is_itself = space == to && before.name == moved.new_name.as_str();
    if kernel.find_mut(to, moved.new_name.as_str()).is_some() && !is_itself {
        return refuse(format!("{} exists", moved.new_name));
    }
    if before.name == "lo" || before.kind.as_deref() == Some("bridge") {
        return refuse(format!("{} belongs to its namespace", moved.name));
    }
    kernel.relocate(space, to, &before.name, &moved.new_name);
    let there = &mut kernel.present(to, moved.new_name.as_str())?.link;
    there.alias = Some(moved.alias.clone()).filter(|alias| !alias.is_empty());
    Ok(Step::MoveLink(LinkMove {
        from: moved.to,
        index: there.index,
        name: moved.new_name.to_string(),
        to: moved.from,
        new_name: IfName::parse(&before.name).unwrap_or_else(|_| moved.new_name.clone()),
        alias: before.alias.unwrap_or_default(),
    }))
}

fn set(kernel: &mut Kernel, space: &Space, name: &IfName, setting: &LinkSetting) -> Result<Option<LinkSetting>, Error> {
    let may_be_gone = matches!(setting, LinkSetting::Down | LinkSetting::NoMaster);
    if may_be_gone && kernel.find_mut(space, name.as_str()).is_none() {
        return Ok(None);
    }
    let before = kernel.present(space, name.as_str())?.link.clone();
    let former = before.master.and_then(|index| kernel.by_index_mut(space, index).map(|entry| entry.link.name.clone()));
    let former = former.map(|name| IfName::parse(&name)).transpose()?;
    let bridge = if let LinkSetting::Master(bridge) = setting { Some(bridge) } else { None };
    let new_master = bridge.map(|bridge| kernel.present(space, bridge.as_str()).map(|entry| entry.link.index));
    let new_master = new_master.transpose()?;
    let is_vrf = |kernel: &mut Kernel, index: Option<u32>| {
        index.and_then(|index| kernel.by_index_mut(space, index)).is_some_and(|entry| entry.link.vrf_table.is_some())
    };
    let joins_vrf = is_vrf(kernel, new_master);
    let leaves_vrf = *setting == LinkSetting::NoMaster && is_vrf(kernel, before.master);
    let entry = kernel.present(space, name.as_str())?;
    // The kernel sets a link down and up when it joins or leaves a VRF.
    if *setting == LinkSetting::Down || joins_vrf || leaves_vrf {
        entry.lose_routes();
    }
    let link = &mut entry.link;
    match setting {
        LinkSetting::Up => link.up = true,
        LinkSetting::Down => link.up = false,
        LinkSetting::Mac(mac) => link.mac = Some(mac.clone()),
        LinkSetting::Mtu(mtu) => link.mtu = *mtu,
        LinkSetting::Alias(text) => link.alias = Some(text.clone()).filter(|text| !text.is_empty()),
        LinkSetting::Promisc(on) => (link.promisc, link.promiscuity) = (*on, u32::from(*on)),
        LinkSetting::AllMulticast(on) => link.all_multicast = *on,
        LinkSetting::TxQueueLength(packets) => link.tx_queue_length = *packets,
        LinkSetting::Master(_) => (link.master, entry.vlans) = (new_master, vec![DEFAULT]),
        LinkSetting::NoMaster => (link.master, entry.port, entry.vlans) = (None, None, Vec::new()),
        LinkSetting::Port(_) if link.master.is_none() => return refuse(format!("{name} is no port")),
        LinkSetting::Port(port) => entry.port = Some(*port),
    }
    if *setting == LinkSetting::Up && name.as_str() == "lo" {
        kernel.set_lo_addresses(space);
    }
    Ok(setting.undo(&before, former.as_ref()))
}

fn wait(kernel: &mut Kernel, space: &Space, name: &IfName, until: &Until) -> Result<(), Error> {
    let entry = kernel.present(space, name.as_str())?.clone();
    match until {
        Until::AddressesSettled if entry.addresses.iter().any(|address| address.dad_failed) => {
            refuse(format!("an address of {name} is in DADFAILED state"))
        }
        Until::Up if kernel.oper_state(&entry) != cni_model::link::OperState::Up => {
            refuse(format!("{name} does not come up"))
        }
        Until::PeerGone if kernel.peer_addresses(&entry.link).is_some() => {
            refuse(format!("{name} leads to a container"))
        }
        Until::AddressesSettled | Until::Local(_) | Until::Up | Until::PeerGone => Ok(()),
    }
}

fn write(
    kernel: &mut Kernel,
    space: &Space,
    (ns, key): (Ns, &Sysctl),
    value: &str,
    need: SysctlNeed,
) -> Result<Option<Step>, Error> {
    let path = key.path();
    let Some(earlier) = kernel.parameter(space, &path) else {
        return if need == SysctlNeed::Wanted { Ok(None) } else { refuse(format!("there is no {path}")) };
    };
    if earlier == value {
        return Ok(None);
    }
    kernel.parameters.insert((space.clone(), path), value.to_owned());
    Ok(Some(Step::SetSysctl { ns, key: key.clone(), value: earlier, need }))
}
