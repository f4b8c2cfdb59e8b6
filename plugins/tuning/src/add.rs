//! ADD: first the kernel parameters, then the properties of the interface, of which it writes down before what
//! they were.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::verify;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::plan::{Need, Ns, Plan, Step};
use cni_plugin::state_file::StateFile;

use crate::config::Config;
use crate::error::TuningError;
use crate::properties::Properties;
use crate::{allow, backup};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    allow::verify(&config.parameters, journal.host())?;
    let mut result = verify::prev_result(request)?;
    let at = request.attachment()?;
    journal.host().enter(request.netns().unwrap_or_default())?;
    let before = if config.wanted.is_empty() {
        None
    } else {
        let file = config.backup(&at)?;
        let before = observe(&config, &at.ifname, &file, journal.host())?;
        Some((file, before))
    };
    journal.apply(&plan(&config, &at.ifname, before))?;
    tell(&mut result, &at.ifname, &config.wanted);
    Ok(result)
}

/// What the interface was before the first ADD that is not undone yet.
fn observe(config: &Config, name: &IfName, file: &StateFile, host: &mut dyn Host) -> Result<Properties, Error> {
    let link = host.link(Ns::Container, name)?.ok_or_else(|| TuningError::NoLink { name: name.to_string() })?;
    let now = Properties::before(&link, &config.wanted);
    let Some(text) = host.state_file(file)? else { return Ok(now) };
    match backup::parse(&text) {
        Ok(earlier) => Ok(earlier.or(now)),
        Err(error) => {
            log::warn!("{file} cannot be read, and is written anew: {error}");
            Ok(now)
        }
    }
}

fn plan(config: &Config, name: &IfName, before: Option<(StateFile, Properties)>) -> Plan {
    let mut plan = Plan::default();
    for parameter in &config.parameters {
        let (key, value) = (parameter.name.of(name), parameter.value.clone());
        plan.owned(Step::SetSysctl { ns: Ns::Container, key, value, need: Need::Required });
    }
    if let Some((file, before)) = before {
        plan.owned(Step::WriteStateFile { file, text: backup::render(&before) });
    }
    config.wanted.steps(name).into_iter().for_each(|step| plan.owned(step));
    plan
}

/// Podman looks for the address of the container there. Interfaces of this name on the host are others.
fn tell(result: &mut CniResult, name: &IfName, wanted: &Properties) {
    let told = result.interfaces.iter_mut().filter(|told| told.name == name.as_str() && !told.sandbox.is_empty());
    for told in told {
        if let Some(mac) = &wanted.mac {
            told.mac = mac.to_string();
        }
        if let Some(mtu) = wanted.mtu.filter(|_| told.mtu != 0) {
            told.mtu = mtu.into();
        }
    }
}
