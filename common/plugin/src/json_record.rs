//! Records as JSON: one for each attachment, in the group of its container.

use cni_core::error::Error;
use cni_core::json::Json;
use cni_core::names::{Attachment, NetworkName};
use cni_core::result::render::to_text;
use cni_core::valid::ValidAttachments;
use cni_model::plan::{Ns, Step};
use cni_model::record::{RecordKey, RecordKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host::Host;

/// The record of a plugin about an attachment. Treats one that makes no sense as missing.
pub trait JsonRecord: Serialize + DeserializeOwned {
    /// The kind of such records.
    const KIND: RecordKind;

    /// The names of the attachment: network, container, interface.
    fn names(&self) -> [&str; 3];

    /// Returns the key of an attachment's record.
    fn key(at: &Attachment) -> RecordKey {
        RecordKey::of_group(Self::KIND, at.container.as_str(), &format!("{}/{}", at.network, at.ifname))
    }

    /// Returns the step that writes the record.
    fn write(&self, at: &Attachment) -> Step {
        Step::WriteRecord { key: Self::key(at), text: to_text(self) }
    }

    /// Returns the step that removes the record of an attachment.
    fn remove(at: &Attachment) -> Step {
        Step::RemoveRecord { key: Self::key(at) }
    }

    /// Reads the record of an attachment.
    fn read(at: &Attachment, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        read(&Self::key(at), host)
    }

    /// Reads every record of the kind.
    fn all(host: &mut dyn Host) -> Result<Vec<(RecordKey, Self)>, Error> {
        read_all(|_| true, host)
    }

    /// Reads the records of other attachments of a container.
    fn others(at: &Attachment, host: &mut dyn Host) -> Result<Vec<Self>, Error> {
        let (own, group) = (Self::key(at), RecordKey::group(at.container.as_str()));
        let found = read_all(|name| name.starts_with(&group) && name != own.name(), host)?;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// Reads the records of attachments to a network that are not valid, for GC.
    fn invalid(
        network: &NetworkName,
        valid: &ValidAttachments,
        host: &mut dyn Host,
    ) -> Result<Vec<(RecordKey, Self)>, Error> {
        let mut found = Self::all(host)?;
        found.retain(|(_, record)| {
            let [of, container, ifname] = record.names();
            of == network.as_str() && !valid.contains(container, Some(ifname))
        });
        Ok(found)
    }
}

fn read<R: JsonRecord>(key: &RecordKey, host: &mut dyn Host) -> Result<Option<R>, Error> {
    let Some(text) = host.records().read(key)? else { return Ok(None) };
    let record = Json::parse(text.as_bytes()).and_then(|json| json.decode());
    Ok(record.inspect_err(|error| log::warn!("the record {key} makes no sense, and is passed over: {error}")).ok())
}

fn read_all<R: JsonRecord>(wanted: impl Fn(&str) -> bool, host: &mut dyn Host) -> Result<Vec<(RecordKey, R)>, Error> {
    let mut found = Vec::new();
    for name in host.records().names(R::KIND)?.into_iter().filter(|name| wanted(name)) {
        let key = RecordKey::new(R::KIND, &name)?;
        found.extend(read(&key, host)?.map(|record| (key, record)));
    }
    Ok(found)
}

/// Whether a recorded identity is that of the entered namespace, if the kernel can tell.
pub fn is_of_entered(recorded: Option<&str>, host: &mut dyn Host) -> Result<bool, Error> {
    let here = host.namespaces().identity(Ns::Container)?;
    Ok(here.is_none() || recorded.is_none() || here.as_deref() == recorded)
}
