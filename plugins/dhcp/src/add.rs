//! ADD: asks the daemon to lease an address through the container's interface, which the calling plugin has made.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_model::plan::Step;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::Config;
use crate::key::LeaseKey;
use crate::protocol::{self, Operation};
use crate::{answer, ask};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let asked = asked(request, &config, journal.host())?;
    let undo = Step::TellDaemon(ask::call(&config.socket, Operation::Del { key: asked.key.clone() }));
    let call = ask::call(&config.socket, Operation::Add(asked));
    let grant = ask::for_lease(&call, journal.host()).inspect_err(|error| {
        let is_there = !matches!(error, ask::AskError::Daemon { source } if !source.may_be_done());
        if is_there {
            journal.undo_first(undo.clone());
        }
    })?;
    journal.undo_first(undo);
    Ok(answer::result(&grant, config.priority))
}

/// The request for a lease, in the container's namespace, which is entered for it.
pub fn asked(request: &Request, config: &Config, host: &mut dyn Host) -> Result<protocol::LeaseRequest, Error> {
    let netns = request.netns().unwrap_or_default();
    host.enter(netns)?;
    let key = LeaseKey::of(&request.attachment()?);
    let Config { provided, requested, .. } = config.clone();
    Ok(protocol::LeaseRequest { key, netns: netns.to_owned(), provided, requested })
}
