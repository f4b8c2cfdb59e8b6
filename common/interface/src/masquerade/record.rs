//! The record that an attachment has a masquerade. The configuration may ask for none by the time of DEL, and to look for rules
//! without a reason would cost each container without a masquerade the reading of a long chain, or a program.

use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_model::plan::Step;
use cni_model::record::{RecordKey, RecordKind};
use cni_plugin::host::Host;
use cni_plugin::owner;
use cni_plugin::removal::Removal;

const MASQUERADES: RecordKind = RecordKind::new("masquerades");

fn key(at: &Attachment) -> RecordKey {
    RecordKey::of_group(MASQUERADES, at.network.as_str(), &owner::text(at))
}

/// The step that writes the record.
pub fn write(at: &Attachment) -> Step {
    Step::WriteRecord { key: key(at), text: owner::text(at) }
}

/// The step that removes the record.
pub fn forget(at: &Attachment) -> Step {
    Step::RemoveRecord { key: key(at) }
}

/// Whether an attachment is recorded to have a masquerade.
///
/// # Errors
/// When the record cannot be read.
pub fn is_recorded(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(host.records().read(&key(at))?.is_some())
}

/// Removes the records of a network that name no valid attachment.
///
/// # Errors
/// The first failure; one record does not keep the others.
pub fn remove_stale(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let group = RecordKey::group(network.as_str());
    let names = host.records().names(MASQUERADES)?;
    let mut removal = Removal::new(host);
    for name in names.iter().filter(|name| name.starts_with(&group)) {
        removal.attempt(|host| {
            let key = RecordKey::new(MASQUERADES, name)?;
            let owner = host.records().read(&key)?.and_then(|text| owner::parse(&mut text.split(' ')));
            let is_valid = |at: &Attachment| valid.contains(at.container.as_str(), Some(at.ifname.as_str()));
            if !owner.as_ref().is_some_and(is_valid) {
                host.apply(&Step::RemoveRecord { key })?;
            }
            Ok(())
        });
    }
    removal.finish()
}
