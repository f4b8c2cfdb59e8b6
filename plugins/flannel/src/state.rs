//! The state file of an attachment: the composed configuration, by which its DEL and CHECK call the delegate.
//!
//! The reference has one file for each container, under its id. So does this plugin for the first interface of a container; a
//! further one has a file beside it, `<id>@<ifname>`, which the reference ignores, since no container id has an `@`.

use cni_core::error::Error;
use cni_core::names::{Attachment, hash_hex};
use cni_model::plan::Step;
use cni_model::state_file::{LONGEST_NAME, StateFile, StateFileError, StateFileReadError};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;

use crate::compose::Composed;

/// What the files say of an attachment.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// The composed configuration; `None` if there is no file, or a torn one.
    pub composed: Option<Composed>,
    /// Whether the file is that of this attachment, and not another interface's.
    pub is_own: bool,
    /// The files that are removed after DEL, with drafts of them that a killed ADD has left.
    pub removable: Vec<StateFile>,
}

/// The composed configuration of an attachment, if it is kept in a directory.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn saved(directory: &str, at: &Attachment, host: &mut dyn Host) -> Result<Option<Composed>, Error> {
    Ok(find(directory, at, host)?.composed)
}

/// Looks for the file of an attachment: first for its own, then for that of the container.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn find(directory: &str, at: &Attachment, host: &mut dyn Host) -> Result<Found, Error> {
    let (own, shared) = (own_file(directory, at)?, container_file(directory, at)?);
    if let Some(text) = read(&own, host)? {
        let composed = Composed::parse(&text).filter(|it| is_of(it, at));
        return Ok(Found { composed, is_own: true, removable: vec![own] });
    }
    let Some(text) = read(&shared, host)? else {
        return Ok(Found { composed: None, is_own: false, removable: vec![own, shared] });
    };
    match Composed::parse(&text) {
        Some(composed) if !is_of(&composed, at) => Ok(Found { composed: None, is_own: false, removable: vec![own] }),
        composed if is_claimed(directory, at, host)? => Ok(Found { composed, is_own: false, removable: vec![own] }),
        composed => Ok(Found { composed, is_own: true, removable: vec![own, shared] }),
    }
}

/// The file that ADD writes: the container's, unless another interface or another network has it.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn file_to_write(directory: &str, at: &Attachment, host: &mut dyn Host) -> Result<StateFile, Error> {
    let (own, shared) = (own_file(directory, at)?, container_file(directory, at)?);
    if read(&own, host)?.is_some() {
        return Ok(own);
    }
    let is_free = match host.files().state_file(&shared) {
        Ok(None) => true,
        Ok(Some(text)) => match Composed::parse(&text) {
            Some(composed) => is_of(&composed, at) && was_added(at, host) && !is_claimed(directory, at, host)?,
            None => !is_claimed(directory, at, host)?,
        },
        Err(StateFileReadError::Foreign(error)) => {
            log::warn!("{shared} is left alone: {}", error.in_full());
            false
        }
        Err(error) => return Err(error.into()),
    };
    Ok(if is_free { shared } else { own })
}

/// Whether an ADD of ours without a DEL is recorded. Until the end of this ADD its own record names no interface, but says
/// whether it has replaced that of an earlier one.
pub fn was_added(at: &Attachment, host: &mut dyn Host) -> bool {
    AttachmentRecord::find(at, host).is_some_and(|record| record.link.is_some() || record.is_again)
}

/// The steps that remove the files of attachments to a network that are not valid.
///
/// # Errors
/// When the directory cannot be listed, or a file cannot be read.
pub fn stale_files(
    directory: &str,
    network: &str,
    valid: impl IntoIterator<Item = Attachment>,
    host: &mut dyn Host,
) -> Result<Vec<Step>, Error> {
    let mut kept = Vec::new();
    for at in valid {
        kept.extend([container_file(directory, &at)?, own_file(directory, &at)?]);
    }
    let mut stale = Vec::new();
    let any = StateFile::new(directory, "any")?;
    for name in host.files().state_file_names(any.directory())? {
        let file = StateFile::new(directory, &name)?;
        if kept.contains(&file) {
            continue;
        }
        let composed = read(&file, host)?.and_then(|text| Composed::parse(&text));
        if composed.is_some_and(|composed| composed.network() == network) {
            stale.push(Step::RemoveStateFile { file, directories: Vec::new() });
        }
    }
    Ok(stale)
}

fn is_of(composed: &Composed, at: &Attachment) -> bool {
    composed.network() == at.network.as_str()
}

/// A file that is not root's own says nothing.
fn read(file: &StateFile, host: &mut dyn Host) -> Result<Option<String>, Error> {
    match host.files().state_file(file) {
        Err(StateFileReadError::Foreign(error)) => {
            log::warn!("{file} is left alone: {}", error.in_full());
            Ok(None)
        }
        read => Ok(read?),
    }
}

/// Whether the container's file belongs to another interface, which is there and has no file of its own.
fn is_claimed(directory: &str, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let records = AttachmentRecord::all(host.records()).unwrap_or_else(|error| {
        log::warn!("the interfaces of {} are not known: {}", at.container, error.in_full());
        Vec::new()
    });
    let is_other =
        |other: &Attachment| (&other.network, &other.container) == (&at.network, &at.container) && other != at;
    for record in records.into_iter().filter(|record| is_other(&record.at)) {
        if read(&own_file(directory, &record.at)?, host)?.is_none() && record.has_interface(host)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The file under the name of the reference. An id that no file can have as its name is hashed: there the reference fails.
fn container_file(directory: &str, at: &Attachment) -> Result<StateFile, StateFileError> {
    let id = at.container.as_str();
    if id.len() <= LONGEST_NAME { StateFile::new(directory, id) } else { StateFile::new(directory, &hash_hex(id)) }
}

fn own_file(directory: &str, at: &Attachment) -> Result<StateFile, StateFileError> {
    let name = format!("{}@{}", at.container, at.ifname);
    if name.len() <= LONGEST_NAME {
        return StateFile::new(directory, &name);
    }
    StateFile::new(directory, &format!("{}@{}", hash_hex(at.container.as_str()), at.ifname))
}
