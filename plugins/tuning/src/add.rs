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
use cni_plugin::json_record::JsonRecord as _;

use crate::changes::{ChangedParameter, Changes, parse_backup, render_backup};
use crate::config::{Config, Properties, backup_in};

/// Sets the kernel parameters, then the properties of the interface. It first records the present values of both.
pub fn tune(config: &Config, at: &Attachment, journal: &mut Journal<'_>) -> Result<(), Error> {
    let earlier = EarlierAdd::observe(at, journal.host())?;
    let changes = Changes::observe(config, at, earlier.changes(), journal.host())?;
    let switches = switches(&config.wanted, &at.ifname, journal.host())?;
    let file = config.backup(at)?;
    let former = FormerBackup::observe(&file, at, earlier.changes(), journal.host())?;
    let mut plan = Plan::default();
    if former.is_some() {
        // Before the record names its directory: a DEL after a killed ADD finds either this one or the former.
        plan.owned(backup_written(config, at, former.as_ref(), &earlier, journal.host())?);
    }
    plan.owned(changes.with_switches(&switches).write(at));
    for parameter in &config.parameters {
        let (key, value) = (parameter.name.of(&at.ifname), parameter.value.clone());
        plan.owned(Step::SetSysctl { ns: Ns::Container, key, value, need: SysctlNeed::Required });
    }
    if former.is_none() && !config.wanted.is_empty() {
        plan.owned(backup_written(config, at, None, &earlier, journal.host())?);
    }
    journal.apply(&plan)?;
    let mut plan = properties(config, &at.ifname, journal.host())?;
    if !switches.is_empty() {
        plan.owned(changes.write(at));
    }
    if let Some(FormerBackup { file, .. }) = former {
        // The last step, since nothing brings it back.
        plan.owned(Step::RemoveStateFile { file, directories: Vec::new() });
    }
    journal.apply(&plan)
}

/// The record of an ADD that was not undone.
enum EarlierAdd {
    Nothing,
    /// It was in this namespace.
    Here(Changes),
    /// The container has another namespace now, and another interface.
    Elsewhere,
}

impl EarlierAdd {
    fn observe(at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        Ok(match Changes::read(at, host)? {
            None => Self::Nothing,
            Some(changes) if changes.are_here(host)? => Self::Here(changes),
            Some(_) => Self::Elsewhere,
        })
    }

    const fn changes(&self) -> Option<&Changes> {
        match self {
            Self::Here(changes) => Some(changes),
            Self::Nothing | Self::Elsewhere => None,
        }
    }
}

/// A state file of an earlier ADD in another directory than the configured one.
struct FormerBackup {
    file: StateFile,
    before: Properties,
}

impl FormerBackup {
    /// One that is not root's own stays where it is.
    fn observe(
        file: &StateFile,
        at: &Attachment,
        earlier: Option<&Changes>,
        host: &mut dyn Host,
    ) -> Result<Option<Self>, Error> {
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
        match parse_backup(&text) {
            Ok(before) => Ok(Some(Self { file: former, before })),
            Err(error) => {
                log::warn!("{former} is left alone: {error}");
                Ok(None)
            }
        }
    }
}

/// The step that keeps what the interface was before the first ADD that is not undone yet.
fn backup_written(
    config: &Config,
    at: &Attachment,
    former: Option<&FormerBackup>,
    earlier: &EarlierAdd,
    host: &mut dyn Host,
) -> Result<Step, Error> {
    let file = config.backup(at)?;
    let here = observe_interface(config, &at.ifname, &file, earlier, host)?;
    let before = former.map(|former| former.before.clone()).unwrap_or_default().or(here);
    Ok(Step::WriteStateFile { file, text: render_backup(&before) })
}

/// The former properties of the interface, from the state file or else from the kernel.
fn observe_interface(
    config: &Config,
    name: &IfName,
    file: &StateFile,
    earlier: &EarlierAdd,
    host: &mut dyn Host,
) -> Result<Properties, Error> {
    let now = if config.wanted.is_empty() {
        Properties::default()
    } else {
        let link = host.link(Ns::Container, name)?.ok_or_else(|| {
            let name = name.as_str();
            fail!(Kernel, "failed to get {name:?}: Link not found", details: "the plugins before tuning have not made it")
        })?;
        Properties::before(&link, &config.wanted)
    };
    let text = match earlier {
        EarlierAdd::Elsewhere => None,
        EarlierAdd::Nothing | EarlierAdd::Here(_) => host.files().state_file(file)?,
    };
    match text.map(|text| parse_backup(&text)) {
        None => Ok(now),
        Some(Ok(before)) => Ok(before.or(now)),
        Some(Err(error)) => {
            log::warn!("{file} cannot be read, and is written anew: {error}");
            Ok(now)
        }
    }
}

/// The properties, when the parameters have their values.
fn properties(config: &Config, name: &IfName, host: &mut dyn Host) -> Result<Plan, Error> {
    let switches = switches(&config.wanted, name, host)?;
    let mut plan = Plan::default();
    for step in config.wanted.steps(name) {
        let changes_mac = matches!(step, Step::SetLink { setting: LinkSetting::Mac(_), .. });
        let steps = if changes_mac { around(step, &switches) } else { vec![step] };
        steps.into_iter().for_each(|step| plan.owned(step));
    }
    Ok(plan)
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
