//! ADD: sets the kernel parameters, then the properties of the interface, and announces a new MAC address.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName};
use cni_core::result::CniResult;
use cni_model::plan::{LinkSetting, Ns, Plan, Step, Sysctl, SysctlNeed};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::json_part::JsonPart as _;

use crate::changes::{ChangedParameter, Changes, parse_backup, render_backup};
use crate::config::{Config, Properties, backup_in};

/// Sets the kernel parameters, then the properties of the interface. It first records the present values of both.
pub fn tune(config: &Config, at: &Attachment, journal: &mut Journal<'_>) -> Result<(), Error> {
    let recorded = Changes::read(at, journal.host())?;
    // Otherwise the container has another namespace now, and another interface.
    let is_here = recorded.as_ref().map_or(Ok(true), |changes| changes.are_here(journal.host()))?;
    let earlier = recorded.filter(|_| is_here);
    let changes = Changes::observe(config, at, earlier.as_ref(), journal.host())?;
    let switches = switches(&config.wanted, &at.ifname, journal.host())?;
    let file = config.backup(at)?;
    let former = former_backup(&file, at, earlier.as_ref(), journal.host())?;
    let mut steps = vec![changes.with_switches(&switches).write(at)];
    for parameter in &config.parameters {
        let (key, value) = (parameter.of(&at.ifname), parameter.value.clone());
        steps.push(Step::SetSysctl { ns: Ns::Container, key, value, need: SysctlNeed::Required });
    }
    if former.is_some() || !config.wanted.is_empty() {
        let now = present_properties(&config.wanted, &at.ifname, journal.host())?;
        let kept = if is_here { read_backup(&file, journal.host())? } else { Properties::default() };
        let before = former.as_ref().map(|(_, before)| before.clone()).unwrap_or_default().or(kept).or(now);
        // A former one is copied before the record names its directory: a DEL after a killed ADD finds either this one or the former.
        let place = if former.is_some() { 0 } else { steps.len() };
        steps.insert(place, Step::WriteStateFile { file, text: render_backup(&before) });
    }
    journal.apply(&Plan::of_owned(steps))?;
    let mut steps = property_steps(&config.wanted, &at.ifname, journal.host())?;
    if !switches.is_empty() {
        steps.push(changes.write(at));
    }
    if let Some((file, _)) = former {
        // The last step, since nothing brings it back.
        steps.push(Step::RemoveStateFile { file, directories: Vec::new() });
    }
    journal.apply(&Plan::of_owned(steps))
}

/// A state file of an earlier ADD in another directory than the configured one, with the properties in it. One that is not root's own
/// stays where it is.
fn former_backup(
    file: &StateFile,
    at: &Attachment,
    earlier: Option<&Changes>,
    host: &mut dyn Host,
) -> Result<Option<(StateFile, Properties)>, Error> {
    let Some(earlier) = earlier else { return Ok(None) };
    let former = match backup_in(&earlier.data_dir, at.container.as_str(), at.ifname.as_str()) {
        Ok(former) if former != *file => former,
        Ok(_) | Err(_) => return Ok(None),
    };
    let text = match host.files().state_file(&former) {
        Err(StateFileReadError::Foreign(error)) => {
            log::warn!("{former} is left alone: {}", error.in_full());
            None
        }
        text => text?,
    };
    let Some(text) = text else { return Ok(None) };
    // Two names of one directory, as by a link, are no move: what is removed there would be removed here.
    if host.files().state_file(file)?.as_ref() == Some(&text) {
        return Ok(None);
    }
    let before = parse_backup(&text).inspect_err(|error| log::warn!("{former} is left alone: {error}"));
    Ok(before.ok().map(|before| (former, before)))
}

/// The properties of the interface that change.
fn present_properties(wanted: &Properties, name: &IfName, host: &mut dyn Host) -> Result<Properties, Error> {
    if wanted.is_empty() {
        return Ok(Properties::default());
    }
    let link = host.link(Ns::Container, name)?.ok_or_else(|| {
        let name = name.as_str();
        fail!(Kernel, "failed to get {name:?}: Link not found", details: "the plugins before tuning have not made it")
    })?;
    Ok(Properties::before(&link, wanted))
}

/// What the interface was before the first ADD that is not undone yet.
fn read_backup(file: &StateFile, host: &mut dyn Host) -> Result<Properties, Error> {
    let Some(text) = host.files().state_file(file)? else { return Ok(Properties::default()) };
    let before =
        parse_backup(&text).inspect_err(|error| log::warn!("{file} cannot be read, and is written anew: {error}"));
    Ok(before.unwrap_or_default())
}

/// The steps that set the properties, when the parameters have their values.
fn property_steps(wanted: &Properties, name: &IfName, host: &mut dyn Host) -> Result<Vec<Step>, Error> {
    let switches = switches(wanted, name, host)?;
    let announced = |step| {
        let changes_mac = matches!(step, Step::SetLink { setting: LinkSetting::Mac(_), .. });
        if changes_mac { around(step, &switches) } else { vec![step] }
    };
    Ok(wanted.steps(name).into_iter().flat_map(announced).collect())
}

/// The parameters with which the kernel announces a new MAC address to the neighbours, which would otherwise send to the old one
/// until they forget it (see the kernel's ip-sysctl documentation).
const PARAMETERS: [(Family, &str); 2] = [(Family::V4, "arp_notify"), (Family::V6, "ndisc_notify")];

/// The parameters that have to be 1 while the address changes and are not, if it changes. Without IPv6 there is at most one.
fn switches(wanted: &Properties, name: &IfName, host: &mut dyn Host) -> Result<Vec<ChangedParameter>, Error> {
    let mut switches = Vec::new();
    if wanted.mac.is_none() {
        return Ok(switches);
    }
    for (family, parameter) in PARAMETERS {
        let key = Sysctl::interface(family, name, parameter);
        let before = host.files().sysctl(Ns::Container, &key)?.filter(|value| value != "1");
        let switch = |before| ChangedParameter { path: key.path(), value: "1".to_owned(), before: Some(before) };
        switches.extend(before.map(switch));
    }
    Ok(switches)
}

/// A step that changes the address, and the steps around it: a parameter that was set has to be set back.
fn around(change: Step, switches: &[ChangedParameter]) -> Vec<Step> {
    let set = |switch: &ChangedParameter, value: &str, need| {
        let (key, value) = (switch.key(), value.to_owned());
        Step::SetSysctl { ns: Ns::Container, key, value, need }
    };
    let on = switches.iter().map(|switch| set(switch, &switch.value, SysctlNeed::Wanted));
    let back = switches.iter().filter_map(|switch| Some(set(switch, switch.before.as_ref()?, SysctlNeed::Required)));
    on.chain([change]).chain(back).collect()
}

/// Sets the new MAC address in the result, where podman reads it. Interfaces of this name on the host are others.
pub fn update_result(result: &mut CniResult, name: &IfName, wanted: &Properties) {
    let reported =
        result.interfaces.iter_mut().filter(|reported| reported.name == name.as_str() && !reported.sandbox.is_empty());
    for reported in reported {
        if let Some(mac) = &wanted.mac {
            reported.mac = mac.to_string();
        }
        if let Some(mtu) = wanted.mtu.filter(|_| reported.mtu != 0) {
            reported.mtu = mtu.into();
        }
    }
}
