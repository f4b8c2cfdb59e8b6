//! The state file of an attachment: the composed configuration, with which DEL and CHECK call the delegate.
//!
//! The reference has one file for each container, named by its id. This plugin uses the same file for the first interface of a
//! container, and `<id>@<ifname>` for a further one. The reference ignores that file, since no container id contains an `@`.

use cni_core::error::Error;
use cni_core::names::{Attachment, hash_hex};
use cni_model::plan::{Ns, Step};
use cni_model::state_file::{LONGEST_NAME, StateFile, StateFileError, StateFileReadError};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};

use crate::delegate_config::DelegateConfig;

/// The saved state of an attachment.
#[derive(Debug, Default, PartialEq)]
pub struct SavedState {
    /// The composed configuration; `None` if the file is missing or torn.
    pub composed: Option<DelegateConfig>,
    /// Whether the file belongs to this attachment, not to another interface.
    pub is_own: bool,
    /// The files that DEL removes at its end, with drafts of a killed ADD.
    pub removable: Vec<StateFile>,
}

/// Finds the state of an attachment: first in its own file, then in the container's.
///
/// # Errors
/// When an existing file cannot be read.
pub fn find(directory: &str, at: &Attachment, host: &mut dyn Host) -> Result<SavedState, Error> {
    let (own, shared) = (own_file(directory, at)?, container_file(directory, at)?);
    if let Some(text) = read(&own, host)? {
        let composed = DelegateConfig::parse(&text).filter(|it| is_of(it, at));
        return Ok(SavedState { composed, is_own: true, removable: vec![own] });
    }
    let Some(text) = read(&shared, host)? else {
        return Ok(SavedState { composed: None, is_own: false, removable: vec![own, shared] });
    };
    match DelegateConfig::parse(&text) {
        Some(composed) if !is_of(&composed, at) => {
            Ok(SavedState { composed: None, is_own: false, removable: vec![own] })
        }
        composed if is_anothers(directory, at, host)? => {
            Ok(SavedState { composed, is_own: false, removable: vec![own] })
        }
        composed => Ok(SavedState { composed, is_own: true, removable: vec![own, shared] }),
    }
}

/// The file that ADD writes: the container's, unless it belongs to another interface or another network. The container's namespace is
/// entered.
///
/// # Errors
/// When an existing file cannot be read.
pub fn file_to_write(directory: &str, at: &Attachment, host: &mut dyn Host) -> Result<StateFile, Error> {
    let (own, shared) = (own_file(directory, at)?, container_file(directory, at)?);
    if read(&own, host)?.is_some() {
        return Ok(own);
    }
    let is_free = match host.files().state_file(&shared) {
        Ok(None) => true,
        Ok(Some(text)) => {
            DelegateConfig::parse(&text).is_none_or(|composed| is_of(&composed, at))
                && !is_anothers(directory, at, host)?
                && (has_add_record(at, host) || !has_unrecorded_interface(at, host)?)
        }
        Err(StateFileReadError::Foreign(error)) => {
            log::warn!("{shared} is ignored: {}", error.in_full());
            false
        }
        Err(error) => return Err(error.into()),
    };
    Ok(if is_free { shared } else { own })
}

/// Whether a record shows that our ADD was called before, without DEL since. Until ADD ends, its own record names no interface, but
/// says whether it has replaced an earlier record.
pub fn has_add_record(at: &Attachment, host: &mut dyn Host) -> bool {
    AttachmentRecord::find(at, host).is_some_and(|record| record.link.is_some() || record.is_again)
}

/// The steps that remove the files of a network that belong to no valid attachment.
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
        let composed = read(&file, host)?.and_then(|text| DelegateConfig::parse(&text));
        if composed.is_some_and(|composed| composed.network() == network) {
            stale.push(Step::RemoveStateFile { file, directories: Vec::new() });
        }
    }
    Ok(stale)
}

fn is_of(composed: &DelegateConfig, at: &Attachment) -> bool {
    composed.network() == at.network.as_str()
}

/// Reads a file; one that belongs to another user is ignored.
fn read(file: &StateFile, host: &mut dyn Host) -> Result<Option<String>, Error> {
    match host.files().state_file(file) {
        Err(StateFileReadError::Foreign(error)) => {
            log::warn!("{file} is ignored: {}", error.in_full());
            Ok(None)
        }
        read => Ok(read?),
    }
}

/// Whether the container's file belongs to another interface: one that exists and has no file of its own.
fn is_anothers(directory: &str, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let is_other =
        |other: &Attachment| (&other.network, &other.container) == (&at.network, &at.container) && other != at;
    for record in records(at, host).into_iter().filter(|record| is_other(&record.at)) {
        if read(&own_file(directory, &record.at)?, host)?.is_none() && record.has_interface(host)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the container has another interface that nothing is recorded of, such as one of the reference, whose file it may be. After a
/// reboot it has none. The kernel makes some links in every namespace, which are down.
fn has_unrecorded_interface(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let mut known: Vec<String> = records(at, host).iter().map(|record| record.at.ifname.to_string()).collect();
    known.extend(["lo".to_owned(), at.ifname.to_string()]);
    let links = host.links(Ns::Container, LinkQuery::All)?;
    Ok(links.iter().any(|link| link.up && !known.contains(&link.name)))
}

/// The records of the container's attachments.
fn records(at: &Attachment, host: &mut dyn Host) -> Vec<AttachmentRecord> {
    let mut records = AttachmentRecord::all(host.ledger()).unwrap_or_else(|error| {
        log::warn!(
            "the records of interfaces cannot be read, so those of {} are unknown: {}",
            at.container,
            error.in_full()
        );
        Vec::new()
    });
    records.retain(|record| record.at.container == at.container);
    records
}

/// The file with the reference's name. An id that is too long for a file name is hashed: the reference fails.
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
