//! Parts of entries as JSON.

use cni_core::error::Error;
use cni_core::json::Json;
use cni_core::names::{Attachment, NetworkName};
use cni_core::result::render::to_line;
use cni_core::valid::ValidAttachments;
use cni_model::plan::{Ns, Step};
use cni_model::record::{Part, PartKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host::Host;
use crate::ledger::{Entry, is_invalid, names, remove, write};

/// A part as JSON. One that makes no sense counts as missing.
pub trait JsonPart: Serialize + DeserializeOwned {
    /// Its kind, which is indexed.
    const KIND: PartKind;

    /// That of an attachment.
    fn part(_at: &Attachment) -> Part {
        Self::KIND.part()
    }

    /// The step that writes it.
    fn write(&self, at: &Attachment) -> Step {
        write(at, Self::part(at), to_line(self))
    }

    /// The step that removes it.
    fn remove(at: &Attachment) -> Step {
        remove(at, [Self::part(at)])
    }

    /// Reads that of an attachment.
    fn read(at: &Attachment, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        Ok(host.ledger().entry(at)?.and_then(|entry| Self::of(&entry)))
    }

    /// Reads those of all attachments.
    fn all(host: &mut dyn Host) -> Result<Vec<(Attachment, Self)>, Error> {
        Self::holders(&|_| true, host)
    }

    /// Reads those about the things that are meant.
    fn holders(is_meant: &dyn Fn(&str) -> bool, host: &mut dyn Host) -> Result<Vec<(Attachment, Self)>, Error> {
        let holders = host.ledger().holders(Self::KIND, is_meant)?;
        Ok(holders.into_iter().filter_map(|entry| Some((entry.at.clone(), Self::of(&entry)?))).collect())
    }

    /// Reads those of attachments to a network that are not valid, for GC.
    fn invalid(
        network: &NetworkName,
        valid: &ValidAttachments,
        host: &mut dyn Host,
    ) -> Result<Vec<(Attachment, Self)>, Error> {
        let mut found = Self::all(host)?;
        found.retain(|(at, _)| is_invalid(at, network, valid));
        Ok(found)
    }

    /// That of an entry.
    fn of(entry: &Entry) -> Option<Self> {
        let decoded = Json::parse(entry.part(&Self::part(&entry.at))?.as_bytes()).and_then(|json| json.decode());
        let (kind, at) = (Self::KIND.as_str(), names(&entry.at));
        let warn = |error: &_| log::warn!("{kind} of {at} in the ledger makes no sense, and is passed over: {error}");
        decoded.inspect_err(warn).ok()
    }
}

/// Whether a recorded identity is that of the entered namespace, if the kernel can tell.
pub fn is_of_entered(recorded: Option<&str>, host: &mut dyn Host) -> Result<bool, Error> {
    let here = host.namespaces().identity(Ns::Container)?;
    Ok(here.is_none() || recorded.is_none() || here.as_deref() == recorded)
}
