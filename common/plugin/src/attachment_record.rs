//! The record of an attachment: the namespace in which ADD made it, and the link that is its interface.
//!
//! Every plugin reads it in the same way. DEL does not touch a namespace that is not the recorded one: the path may
//! belong to another container by now. The administrator's tool uses it to tell whether the attachment still lives.

use std::fmt;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;

use crate::host::Host;
use crate::ledger::{self, ADDED, DELETION, Entry, Ledger};
use crate::namespace::{Life, OnHost as _, RecordedLink, RecordedNamespace};
use crate::removal::Removal;
use crate::share::Share;
use cni_model::link::{Address, Link};
use cni_model::netns::{NumberedLink, Occupancy};
use cni_model::plan::{Ns, Step};

/// The plugin whose interfaces belong to the host, and are moved back instead of removed.
pub const LENDER: &str = "host-device";

/// In place of the link, for an unfinished ADD that has replaced the record of an earlier one.
const AGAIN: &str = "again";

/// The record of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentRecord {
    /// Network, container and interface name.
    pub at: Attachment,
    /// The plugin that wrote it: the first of these plugins in the list, whose DEL is the last.
    pub maker: String,
    /// The container's namespace.
    pub namespace: RecordedNamespace,
    /// The interface.
    pub link: Option<RecordedLink>,
    /// Whether an ADD that has not ended has replaced the record of an earlier one.
    pub is_again: bool,
    /// When it was written, as time since 1970.
    pub written: Duration,
}

impl AttachmentRecord {
    /// Reads the record of an attachment.
    pub fn read(at: &Attachment, ledger: &mut dyn Ledger) -> Result<Option<Self>, Error> {
        Ok(ledger.entry(at)?.as_ref().and_then(Self::of))
    }

    /// Reads the record of an attachment. `None` if it is missing or records cannot be read.
    pub fn find(at: &Attachment, host: &mut dyn Host) -> Option<Self> {
        or_warn(at, Self::read(at, host.ledger())).flatten()
    }

    /// Reads the records of all attachments of the host.
    pub fn all(ledger: &mut dyn Ledger) -> Result<Vec<Self>, Error> {
        Self::all_but(&[], ledger)
    }

    /// Reads the records of all attachments of the host except these.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn all_but(known: &[&Attachment], ledger: &mut dyn Ledger) -> Result<Vec<Self>, Error> {
        Ok(ledger.entries(known)?.iter().filter_map(Self::of).collect())
    }

    /// The record in an entry.
    pub fn of(entry: &Entry) -> Option<Self> {
        let mut words = entry.part(&ADDED.part())?.splitn(3, ' ');
        let (maker, written) = (words.next()?.to_owned(), Duration::from_nanos(words.next()?.parse().ok()?));
        let link = words.next();
        let is_again = link == Some(AGAIN);
        let link = link.filter(|_| !is_again).and_then(RecordedLink::parse);
        Some(Self { at: entry.at.clone(), maker, namespace: entry.namespace.clone()?, link, is_again, written })
    }

    /// The record of a new attachment in a namespace, with its interface. `None` if another plugin has made the
    /// interface and the record exists.
    pub fn observe(
        maker: &str,
        share: Share,
        request: &Request,
        namespace: RecordedNamespace,
        host: &mut dyn Host,
    ) -> Result<Option<Self>, Error> {
        let at = request.attachment()?;
        let earlier = if share == Share::Interface { None } else { Self::read(&at, host.ledger())? };
        if earlier.is_some_and(|earlier| earlier.namespace.identity == namespace.identity) {
            return Ok(None);
        }
        let link = match host.enter(&namespace.path) {
            Ok(()) => host.link(Ns::Container, &at.ifname)?,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Self {
            at,
            maker: maker.to_owned(),
            namespace,
            link: link.as_ref().map(RecordedLink::of),
            is_again: false,
            written: host.ledger().now(),
        }))
    }

    /// The step that writes the record.
    pub fn write(&self) -> Step {
        let parts = vec![(ADDED.part(), Some(self.to_string()))];
        Step::Record { at: self.at.clone(), namespace: Some(self.namespace.to_string()), parts }
    }

    /// Whether the attachment's namespace still exists.
    pub fn life(&self, host: &mut dyn Host) -> Life {
        self.namespace.life(self.link.as_ref(), host)
    }

    /// The addresses in the attachment's namespace, which lives; `None` when they cannot be listed.
    pub fn addresses(&self, host: &mut dyn Host) -> Result<Option<Vec<Address>>, Error> {
        if let (Some(number), Some(link)) = (self.namespace.number, &self.link)
            && let NumberedLink::Link(found) = host.namespaces().numbered_link(number.value, link.index)?
            && link.is(&found)
        {
            return host.namespaces().numbered_addresses(number.value);
        }
        self.namespace.addresses(host)
    }

    /// Whether the recorded interface is in its namespace, under any name. An interface that is not recorded yet counts
    /// as present.
    pub fn has_interface(&self, host: &mut dyn Host) -> Result<bool, Error> {
        let (Some(link), Some(number)) = (&self.link, self.namespace.number) else { return Ok(true) };
        Ok(match host.namespaces().numbered_link(number.value, link.index)? {
            NumberedLink::Link(found) => link.may_be(&found),
            NumberedLink::NoLink | NumberedLink::NoNamespace => false,
        })
    }
}

/// The text of the part; the entry has the rest.
impl fmt::Display for AttachmentRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.maker, self.written.as_nanos())?;
        match &self.link {
            Some(link) => write!(f, " {link}"),
            None if self.is_again => write!(f, " {AGAIN}"),
            None => Ok(()),
        }
    }
}

/// Removes the interface of an earlier ADD of the attachment, which `maker` is about to add to `now`, if no process can
/// use it. An interface with a process stays; its address is then refused. An interface that another plugin has recorded stays,
/// since it may be one of the host that was lent. Returns whether nothing is left of the earlier ADD: its namespace has ended, or its
/// interface has been removed.
///
/// If the name of a namespace is lost, Nomad calls ADD with a new namespace, while its executor keeps a descriptor of the old one. As long
/// as the old interface has the address, the attachment could not be added again.
pub fn remove_abandoned(
    earlier: &AttachmentRecord,
    maker: &str,
    now: &RecordedNamespace,
    host: &mut dyn Host,
) -> Result<bool, Error> {
    match earlier.life(host) {
        Life::Dead => return Ok(true),
        Life::Unknown(_) => return Ok(false),
        Life::Alive => {}
    }
    let (Some(link), Some(number)) = (&earlier.link, earlier.namespace.number) else { return Ok(false) };
    if earlier.maker != maker || maker == LENDER || earlier.namespace.identity == now.identity {
        return Ok(false);
    }
    match host.namespaces().numbered_link(number.value, link.index)? {
        NumberedLink::Link(found) if link.may_be(&found) => {}
        NumberedLink::Link(_) | NumberedLink::NoLink | NumberedLink::NoNamespace => return Ok(false),
    }
    let reason = match host.namespaces().occupancy(number.value, link.index)? {
        Occupancy::Empty => {
            log::info!("removing the interface of a former ADD of {}: no process uses it", earlier.at.container);
            match host.apply(&Step::RemoveNumberedLink { number: number.value, index: link.index }) {
                Ok(_) => return Ok(true),
                Err(error) => {
                    log::warn!("the interface of a former ADD of {} stays: {}", earlier.at.container, error.in_full());
                    return Ok(false);
                }
            }
        }
        Occupancy::Occupied(path) => format!("a process is in {path}"),
        Occupancy::Unknown(reason) => reason,
    };
    log::info!("the interface of a former ADD of {} stays: {reason}", earlier.at.container);
    Ok(false)
}

/// Whether the entered namespace is not this attachment's: its record names another one, or, without a record as at a DEL that is
/// repeated, the namespace is recorded for another container.
pub fn is_entered_by_another(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    match AttachmentRecord::find(at, host) {
        Some(record) => Ok(!record.namespace.is_entered(host)?),
        None => is_of_another(at, host),
    }
}

/// Whether the entered namespace is recorded for another container, and so is not this attachment's.
pub fn is_of_another(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let Some(identity) = host.namespaces().identity(Ns::Container)? else { return Ok(false) };
    let records = or_warn(at, AttachmentRecord::all(host.ledger())).unwrap_or_default();
    Ok(records.iter().any(|one| one.namespace.identity == identity && one.at.container != at.container))
}

/// Whether a link of the entered namespace is recorded as another attachment's, such as that of another network to the same container. A
/// DEL without a record of the link leaves it alone.
///
/// # Errors
/// When records cannot be read: the link may be the other attachment's then.
pub fn is_of_another_attachment(at: &Attachment, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
    let has_link = |one: &AttachmentRecord| one.link.as_ref().is_some_and(|recorded| recorded.may_be(link));
    if AttachmentRecord::find(at, host).as_ref().is_some_and(has_link) {
        return Ok(false);
    }
    for other in AttachmentRecord::all_but(&[at], host.ledger())?.iter().filter(|one| has_link(one)) {
        if other.namespace.is_entered(host)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Logs a failure: the record is a cache, and what it serves for works without it.
fn or_warn<T>(at: &Attachment, done: Result<T, Error>) -> Option<T> {
    done.inspect_err(|error| log::warn!("the record of {} cannot be used: {}", at.container, error.in_full())).ok()
}

/// Ends the DEL of a plugin: the record is removed with the interface, or by the last of these plugins, and the mark of the DEL with the
/// interface. Returns whether this is the last.
pub fn end_del(plugin: &str, share: Share, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let is_last = match share {
        Share::Interface => true,
        Share::Rules | Share::Properties => {
            // With a missing one go drafts that a killed ADD has left.
            let record = or_warn(at, AttachmentRecord::read(at, host.ledger()));
            record.is_some_and(|record| record.is_none_or(|record| record.maker == plugin))
        }
        Share::Nothing => false,
    };
    if is_last {
        let mark = (share == Share::Interface).then(|| DELETION.part());
        host.apply(&ledger::remove(at, [ADDED.part()].into_iter().chain(mark)))?;
    }
    Ok(is_last)
}

/// Removes the records of attachments to a network that are not valid, for GC of the plugin that wrote them: while its GC fails, such as
/// because an interface cannot be found, they stay.
pub fn remove_invalid(
    plugin: &str,
    network: &NetworkName,
    valid: &ValidAttachments,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let records = AttachmentRecord::all(host.ledger())?;
    let mut removal = Removal::new(host);
    for record in records.iter().filter(|one| one.maker == plugin && ledger::is_invalid(&one.at, network, valid)) {
        removal.step(&ledger::remove(&record.at, [ADDED.part()]));
    }
    removal.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_model::netns::NamespaceNumber;

    #[test]
    fn a_record_is_read_back() {
        let at = ledger::parse_attachment(&mut "net ctr eth0".split(' ')).expect("an attachment");
        let number = Some(NamespaceNumber { value: 17, is_unique: true });
        let namespace = RecordedNamespace { identity: "boot:1".to_owned(), number, path: "/run/netns/a b".to_owned() };
        let link =
            RecordedLink { index: 2, kind: "veth".to_owned(), mac: "0a:58:0a:01:02:03".to_owned(), parent: None };
        for (link, is_again) in [(None, false), (None, true), (Some(link), false)] {
            let (at, namespace, written) = (at.clone(), namespace.clone(), Duration::from_nanos(1));
            let record = AttachmentRecord { at, maker: "bridge".to_owned(), namespace, link, is_again, written };
            let Step::Record { at, namespace, parts } = record.write() else { panic!("another step") };
            let (entry, _) = Entry::changed(None, &at, namespace.as_deref(), &parts);
            assert_eq!(AttachmentRecord::of(&entry.expect("with parts")), Some(record));
        }
    }
}
