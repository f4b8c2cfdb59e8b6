//! The record of an attachment: the namespace in which ADD has made it, and the link that is its interface.
//!
//! Every plugin reads it the same way. DEL leaves alone what a path leads to that is not the recorded namespace: the path
//! may be another container's by now. Tools ask it whether the attachment still lives.

use std::fmt;

use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;

use crate::exclusion::Share;
use crate::host::Host;
use crate::namespace::{Life, RecordedLink, RecordedNamespace};
use crate::owner;
use crate::plan::{Ns, Step};
use crate::record::{RecordKey, RecordKind, Records};

/// The records of attachments.
const ATTACHMENTS: RecordKind = RecordKind::new("attachments");

/// Where an attachment was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentRecord {
    /// Network, container and interface name.
    pub at: Attachment,
    /// The container's namespace.
    pub namespace: RecordedNamespace,
    /// The interface.
    pub link: Option<RecordedLink>,
}

impl AttachmentRecord {
    /// Reads the record of an attachment. Treats a torn one as missing.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(at: &Attachment, records: &mut dyn Records) -> Result<Option<Self>, Error> {
        let text = records.read(&key(at))?;
        Ok(text.and_then(|text| Self::parse(&text)).filter(|record| record.at == *at))
    }

    /// Reads the records of all attachments of the host.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn all(records: &mut dyn Records) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        for name in records.names(ATTACHMENTS)? {
            let text = records.read(&RecordKey::new(ATTACHMENTS, &name)?)?;
            found.extend(text.and_then(|text| Self::parse(&text)));
        }
        Ok(found)
    }

    /// What is to be recorded of a new attachment in a namespace: its interface is looked up. `None` where another plugin has
    /// made the interface, and the record is there.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn observe(
        share: Share,
        request: &Request,
        namespace: RecordedNamespace,
        host: &mut dyn Host,
    ) -> Result<Option<Self>, Error> {
        let at = request.attachment()?;
        let earlier = if share == Share::Interface { None } else { Self::read(&at, host.records())? };
        if earlier.is_some_and(|earlier| earlier.namespace == namespace) {
            return Ok(None);
        }
        let link = match host.enter(&namespace.path) {
            Ok(()) => host.link(Ns::Container, &at.ifname)?,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Self { at, namespace, link: link.as_ref().map(RecordedLink::of) }))
    }

    /// The step that writes the record.
    pub fn write(&self) -> Step {
        Step::WriteRecord { key: key(&self.at), text: self.to_string() }
    }

    /// The step that removes the record of an attachment.
    pub fn remove(at: &Attachment) -> Step {
        Step::RemoveRecord { key: key(at) }
    }

    /// Whether the attachment's namespace lives.
    pub fn life(&self, host: &mut dyn Host) -> Life {
        self.namespace.life(self.link.as_ref(), host)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let at = owner::parse(&mut lines.next()?.split(' '))?;
        let namespace = RecordedNamespace::parse(lines.next()?)?;
        let link = lines.next().map(RecordedLink::parse);
        // A line that is cut off is a sign of a torn record.
        if link == Some(None) {
            return None;
        }
        Some(Self { at, namespace, link: link.flatten() })
    }
}

impl fmt::Display for AttachmentRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n", owner::text(&self.at), self.namespace)?;
        self.link.as_ref().map_or(Ok(()), |link| writeln!(f, "{link}"))
    }
}

/// Removes the records of attachments whose namespace has ended, of at most `most` that are looked at. Where the plugin that
/// makes the interface is not ours, its DEL leaves the record.
///
/// # Errors
/// When the records cannot be read, or one cannot be removed.
pub fn remove_dead(except: &Attachment, most: usize, host: &mut dyn Host) -> Result<(), Error> {
    let names = host.records().names(ATTACHMENTS)?;
    let own = key(except);
    for name in names.iter().filter(|name| *name != own.name()).take(most) {
        let key = RecordKey::new(ATTACHMENTS, name)?;
        let record = host.records().read(&key)?.and_then(|text| AttachmentRecord::parse(&text));
        if record.is_some_and(|record| record.life(host) == Life::Dead) {
            host.apply(&Step::RemoveRecord { key })?;
        }
    }
    Ok(())
}

/// Removes the records of a network's attachments that are not valid.
///
/// # Errors
/// When the records cannot be read, or one cannot be removed.
pub fn remove_invalid(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let is_valid = |at: &Attachment| valid.contains(at.container.as_str(), Some(at.ifname.as_str()));
    for AttachmentRecord { at, .. } in AttachmentRecord::all(host.records())? {
        if at.network == *network && !is_valid(&at) {
            host.apply(&AttachmentRecord::remove(&at))?;
        }
    }
    Ok(())
}

fn key(at: &Attachment) -> RecordKey {
    RecordKey::hashed(ATTACHMENTS, "", &owner::text(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::NamespaceNumber;

    #[test]
    fn a_record_is_read_back_and_a_torn_one_is_missing() {
        let at = owner::parse(&mut "net ctr eth0".split(' ')).expect("an attachment");
        let number = Some(NamespaceNumber { value: 17, is_unique: true });
        let namespace = RecordedNamespace { identity: "boot:1".to_owned(), number, path: "/run/netns/a b".to_owned() };
        let link = RecordedLink { index: 2, kind: "veth".to_owned(), mac: "0a:58:0a:01:02:03".to_owned() };
        for link in [None, Some(link)] {
            let record = AttachmentRecord { at: at.clone(), namespace: namespace.clone(), link };
            assert_eq!(AttachmentRecord::parse(&record.to_string()), Some(record));
        }
        for torn in ["", "net ctr eth0", "net ctr eth0\nboot:1", "net ctr eth0\nboot:1 /run\n2 ve"] {
            assert_eq!(AttachmentRecord::parse(torn), None, "{torn:?}");
        }
    }
}
