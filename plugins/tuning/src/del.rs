//! DEL: sets the interface back to what it was before ADD.
//!
//! The runtime removes the interface next, as a rule. So whatever cannot be set back is told to the log and keeps
//! nobody waiting, as in the reference; what ADD has written is removed whenever there is nothing left to set back.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::plan::{Ns, Step};
use cni_plugin::state_file::StateFile;

use crate::backup;
use crate::config::backup_for_del;
use crate::properties::Properties;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let file = backup_for_del(request, &at)?;
    let outcome = match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => restore(&at.ifname, &file, host)?,
        Err(NetnsError::Gone { .. }) => Restored::All,
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    };
    match outcome {
        Restored::All => host.apply(&Step::RemoveStateFile { file, directories: Vec::new() }).map(|_| ()),
        Restored::NotAll => Ok(()),
    }
}

/// Whether a later DEL has anything to do.
enum Restored {
    All,
    NotAll,
}

fn restore(name: &IfName, file: &StateFile, host: &mut dyn Host) -> Result<Restored, Error> {
    let before = match host.state_file(file) {
        Ok(None) => return Ok(Restored::All),
        Ok(Some(text)) => backup::parse(&text).map_err(Error::from),
        Err(error) => Err(error),
    };
    match before {
        Ok(before) if host.link(Ns::Container, name)?.is_some() => Ok(set_back(&before, name, host)),
        Ok(_) => Ok(Restored::All),
        Err(error) => {
            log::warn!("{name} stays as it is, since {file} cannot be read: {}", error.in_full());
            Ok(Restored::All)
        }
    }
}

/// The MTU comes first, as in the reference. Every property is tried.
fn set_back(before: &Properties, name: &IfName, host: &mut dyn Host) -> Restored {
    let mtu = Properties { mtu: before.mtu, ..Properties::default() };
    let others = Properties { mtu: None, ..before.clone() };
    let mut outcome = Restored::All;
    for step in mtu.steps(name).into_iter().chain(others.steps(name)) {
        if let Err(error) = host.apply(&step) {
            log::warn!("could not be set back: {step}: {}", error.in_full());
            outcome = Restored::NotAll;
        }
    }
    outcome
}
