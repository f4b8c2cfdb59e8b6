//! ADD: saves the composed configuration, and calls the delegate, which adds the interface.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::{Command, Request};
use cni_core::result::CniResult;
use cni_interface::{earlier, ipam};
use cni_model::plan::{Plan, Step};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::Config;
use crate::delegate_config::DelegateConfig;
use crate::lease::SubnetLease;
use crate::state::{self, SavedState};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let lease = SubnetLease::load(&config.subnet_file, journal.host())?;
    let composed = DelegateConfig::new(&config, &lease)?;
    let call = request.with_config(composed.text().into_bytes())?;
    let at = request.attachment()?;
    let repeated = is_repeated(&config, &at, journal.host())?;
    journal.host().enter(request.netns().unwrap_or_default())?;
    keep(&config, &at, &composed, journal)?;
    let answer = journal.host().delegate(&composed.plugin, Command::Add, Some(&call));
    if !repeated && (answer.is_ok() || !interface_exists(request, &at, journal.host())) {
        journal.release_plugin(&composed.plugin, &call);
    }
    ipam::parse_result(&composed.plugin, &answer?, request)
}

/// Whether ADD was called before without DEL since. In that case DEL would remove the interface of a running container.
fn is_repeated(config: &Config, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let SavedState { composed, is_own, removable: _ } = state::find(&config.data_dir, at, host)?;
    Ok(state::has_add_record(at, host) || (is_own && composed.is_some()))
}

/// Whether the interface of an earlier ADD exists after the delegate has failed; true if that is unknown. Without one the delegate's DEL
/// is called, since not every delegate undoes its work.
fn interface_exists(request: &Request, at: &Attachment, host: &mut dyn Host) -> bool {
    let entered = host.enter(request.netns().unwrap_or_default()).map_err(Error::from);
    entered.and_then(|()| earlier::has_interface(at, host)).unwrap_or_else(|unknown| {
        log::warn!("the delegate is not called with DEL: {}", unknown.in_full());
        true
    })
}

fn keep(config: &Config, at: &Attachment, composed: &DelegateConfig, journal: &mut Journal<'_>) -> Result<(), Error> {
    let file = state::file_to_write(&config.data_dir, at, journal.host())?;
    let mut plan = Plan::default();
    plan.owned(Step::WriteStateFile { file, text: composed.text() });
    journal.apply(&plan)
}
