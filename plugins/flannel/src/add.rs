//! ADD: keeps the composed configuration, and has the delegate add the interface.

use cni_core::error::{Code, Error, Failure};
use cni_core::json::{Json, JsonError};
use cni_core::names::Attachment;
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, ResultError};
use cni_interface::earlier;
use cni_model::plan::{Plan, Step};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::compose::Composed;
use crate::config::Config;
use crate::lease::Lease;
use crate::state::{self, Found};

/// The delegate answered ADD with something that is not a result.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Its output is not JSON.
    #[error("failed to unmarshal raw result of {plugin}")]
    Json {
        plugin: String,
        #[source]
        source: JsonError,
    },
    /// Its output is not a result.
    #[error("{plugin} returned an invalid result")]
    Result {
        plugin: String,
        #[source]
        source: ResultError,
    },
}

impl Failure for AnswerError {
    fn code(&self) -> Code {
        match self {
            Self::Json { .. } | Self::Result { .. } => Code::Decoding,
        }
    }
}

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let lease = Lease::load(&config.subnet_file, journal.host())?;
    let composed = Composed::new(&config, &lease)?;
    let call = request.with_config(composed.text().into_bytes())?;
    let at = request.attachment()?;
    let repeated = is_repeated(&config, &at, journal.host())?;
    keep(&config, &at, &composed, journal)?;
    let answer = journal.host().delegate(&composed.plugin, Command::Add, Some(&call));
    if !repeated && (answer.is_ok() || !had_interface(request, &at, journal.host())) {
        journal.release_plugin(&composed.plugin, &call);
    }
    Ok(parse(&composed.plugin, &answer?, request)?)
}

/// Whether there was an ADD of the attachment without a DEL. DEL would remove the interface of a container that runs.
fn is_repeated(config: &Config, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let Found { composed, is_own, removable: _ } = state::find(&config.data_dir, at, host)?;
    Ok(state::was_added(at, host) || (is_own && composed.is_some()))
}

/// Whether the interface of an earlier ADD is there, after the delegate has failed. What cannot be found out counts as one. Otherwise
/// the delegate is called with DEL, since not every one undoes what it has done.
fn had_interface(request: &Request, at: &Attachment, host: &mut dyn Host) -> bool {
    let entered = host.enter(request.netns().unwrap_or_default()).map_err(Error::from);
    entered.and_then(|()| earlier::has_interface(at, host)).unwrap_or_else(|unknown| {
        log::warn!("the delegate is not called with DEL: {}", unknown.in_full());
        true
    })
}

fn keep(config: &Config, at: &Attachment, composed: &Composed, journal: &mut Journal<'_>) -> Result<(), Error> {
    let file = state::file_to_write(&config.data_dir, at, journal.host())?;
    let mut plan = Plan::default();
    plan.owned(Step::WriteStateFile { file, text: composed.text() });
    journal.apply(&plan)
}

fn parse(plugin: &str, output: &[u8], request: &Request) -> Result<CniResult, AnswerError> {
    let plugin = || plugin.to_owned();
    let json = Json::parse(output).map_err(|source| AnswerError::Json { plugin: plugin(), source })?;
    CniResult::parse_any(&json, request.version).map_err(|source| AnswerError::Result { plugin: plugin(), source })
}
