//! The tuning plugin: writes kernel parameters of the container, and changes the MAC address, the MTU and other
//! properties of the interface that an earlier plugin has made. DEL restores them.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::{Ns, Step, Sysctl, SysctlNeed};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::json_part::JsonPart as _;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use crate::changes::{ChangedParameter, Changes, parse_backup};
use crate::config::{Config, Properties, backup_for_del, backup_in};

mod add;
mod allow;
mod changes;
mod config;
mod sysctl;

/// The plugin.
pub struct Tuning;

impl Plugin for Tuning {
    fn kind(&self) -> &'static str {
        "tuning"
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        allow::verify(&config.parameters, journal.host())?;
        let mut result = verify::prev_result(request)?;
        let at = request.attachment()?;
        journal.host().enter(request.netns().unwrap_or_default())?;
        if !config.is_empty() {
            add::tune(&config, &at, journal)?;
        }
        add::update_result(&mut result, &at.ifname, &config.wanted);
        Ok(result)
    }

    /// Restores the interface and the kernel parameters to their former values.
    ///
    /// Usually the runtime removes the interface next. So a value that cannot be restored is logged and does not fail DEL,
    /// as in the reference. The records of ADD are removed when nothing is left to restore.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        let changes = Changes::read(&at, host)?;
        let file = backup_for_del(request, &at, changes.as_ref().map(|changes| changes.data_dir.as_str()))?;
        if host.enter_if_exists(request.netns().unwrap_or_default())?
            && restore(&at, &file, changes.as_ref(), host)? == Restored::NotAll
        {
            return Ok(());
        }
        let mut removal = Removal::new(host);
        removal.step(&Step::RemoveStateFile { file, directories: Vec::new() });
        removal.step(&Changes::remove(&at));
        removal.finish()
    }

    /// Verifies that everything still has the value that ADD set. It compares values, not spellings, and ignores what is not
    /// configured.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        verify::prev_result(request)?;
        let name = request.attachment()?.ifname;
        host.enter(request.netns().unwrap_or_default())?;
        for parameter in &config.parameters {
            verify_parameter(&parameter.of(&name), &parameter.value, host)?;
        }
        let no_link = || fail!(CheckFailed, "Cannot find container link {name}");
        verify_properties(&config.wanted, &host.link(Ns::Container, &name)?.ok_or_else(no_link)?, &name)
    }

    /// Checks the configuration, and that the administrator allows its parameters.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        allow::verify(&Config::load(request)?.parameters, host)
    }

    /// Removes the records of attachments that are not valid. Their interfaces ended with the containers.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let stale = Changes::invalid(&request.network, valid, host)?;
        let mut removal = Removal::new(host);
        for (at, changes) in stale {
            let file = backup_in(&changes.data_dir, at.container.as_str(), at.ifname.as_str());
            removal.attempt(|host| host.apply(&Step::RemoveStateFile { file: file?, directories: Vec::new() }));
            removal.step(&Changes::remove(&at));
        }
        removal.finish()
    }
}

/// Whether a later DEL has anything left to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restored {
    All,
    NotAll,
}

impl Restored {
    fn and(self, other: Self) -> Self {
        if self == Self::All { other } else { self }
    }
}

fn restore(
    at: &Attachment,
    file: &StateFile,
    changes: Option<&Changes>,
    host: &mut dyn Host,
) -> Result<Restored, Error> {
    if let Some(changes) = changes
        && !changes.are_here(host)?
    {
        return Ok(Restored::All);
    }
    let interface = restore_interface(&at.ifname, file, host)?;
    let parameters = changes.map_or(Ok(Restored::All), |changes| restore_parameters(at, changes, host))?;
    Ok(interface.and(parameters))
}

fn restore_interface(name: &IfName, file: &StateFile, host: &mut dyn Host) -> Result<Restored, Error> {
    let as_it_is = |restored, error: &Error| {
        log::warn!("{name} stays as it is, since {file} cannot be read: {}", error.in_full());
        Ok(restored)
    };
    let text = match host.files().state_file(file) {
        Ok(None) => return Ok(Restored::All),
        Ok(Some(text)) => text,
        Err(StateFileReadError::Foreign(error)) => return as_it_is(Restored::All, &error),
        Err(StateFileReadError::Unreadable(error)) => return as_it_is(Restored::NotAll, &error),
    };
    match parse_backup(&text) {
        Ok(before) if host.link(Ns::Container, name)?.is_some() => Ok(set_back(&before, name, host)),
        Ok(_) => Ok(Restored::All),
        Err(error) => as_it_is(Restored::All, &error.into()),
    }
}

/// The MTU comes first, as in the reference. Every property is tried.
fn set_back(before: &Properties, name: &IfName, host: &mut dyn Host) -> Restored {
    let mtu = Properties { mtu: before.mtu, ..Properties::default() };
    let others = Properties { mtu: None, ..before.clone() };
    let steps = mtu.steps(name).into_iter().chain(others.steps(name));
    steps.map(|step| attempt(&step, host)).fold(Restored::All, Restored::and)
}

fn attempt(step: &Step, host: &mut dyn Host) -> Restored {
    match host.apply(step) {
        Ok(_) => Restored::All,
        Err(error) => {
            log::warn!("could not be set back: {step}: {}", error.in_full());
            Restored::NotAll
        }
    }
}

/// Restores the parameters, the last one first. A parameter that somebody has changed since keeps its value. For one
/// that another attachment of the container has changed too, that attachment's value is set, and its DEL restores the
/// first.
fn restore_parameters(at: &Attachment, changes: &Changes, host: &mut dyn Host) -> Result<Restored, Error> {
    let others = changes::of_others(at, host)?;
    let (mut steps, mut restored) = (Vec::new(), Restored::All);
    for parameter in changes.parameters.iter().rev() {
        match step_back(parameter, &others, host) {
            Ok(step) => steps.extend(step),
            Err(error) => {
                log::warn!("{} stays as it is: {}", parameter.key().path(), error.in_full());
                restored = Restored::NotAll;
            }
        }
    }
    Ok(steps.iter().map(|step| attempt(step, host)).fold(restored, Restored::and))
}

fn step_back(parameter: &ChangedParameter, others: &[Changes], host: &mut dyn Host) -> Result<Option<Step>, Error> {
    let key = parameter.key();
    let held: Vec<&String> = changes::holders(parameter, others).map(|other| &other.value).collect();
    let Some(value) = held.first().copied().or(parameter.before.as_ref()).cloned() else { return Ok(None) };
    let Some(now) = sysctl::value(&key, host)? else { return Ok(None) };
    let is_wanted = sysctl::is_same(&now, &value) || held.iter().any(|value| sysctl::is_same(&now, value));
    let is_ours = sysctl::is_same(&now, &parameter.value) && !is_wanted;
    Ok(is_ours.then_some(Step::SetSysctl { ns: Ns::Container, key, value, need: SysctlNeed::Required }))
}

/// One that can only be written has no value to compare.
fn verify_parameter(key: &Sysctl, wanted: &str, host: &mut dyn Host) -> Result<(), Error> {
    let found = match host.files().sysctl(Ns::Container, key) {
        Err(_) if sysctl::is_write_only(key) => return Ok(()),
        found => found?,
    };
    if found.as_ref().is_some_and(|found| sysctl::is_same(found, wanted)) {
        return Ok(());
    }
    let (path, found) = (key.path(), found.unwrap_or_else(|| "not there".to_owned()));
    let text = format!("configured value of /proc/sys/{path} is {wanted}");
    Err(fail!(CheckFailed, "Error: Tuning {text}, current value is {found}"))
}

/// The reference's words for the properties.
const WORDS: [&str; 5] = ["Ethernet", "promiscuous mode", "MTU", "all-multicast mode", "Transmit Queue Length"];

fn verify_properties(wanted: &Properties, link: &Link, name: &IfName) -> Result<(), Error> {
    let found = Properties::before(link, wanted).texts();
    for ((property, wanted), found) in WORDS.iter().zip(wanted.texts()).zip(found) {
        if wanted != found {
            let [wanted, found] = [wanted, found].map(|value| value.unwrap_or_else(|| "none".to_owned()));
            let text = format!("configured {property} of {name} is {wanted}");
            return Err(fail!(CheckFailed, "Error: Tuning {text}, current value is {found}"));
        }
    }
    Ok(())
}
