//! DEL where another network, or another project, has the interface of this name in the container.
//!
//! Either the network was renamed after ADD: DEL removes what ADD has made under the former name. Or ADD was refused, perhaps since the name
//! is taken, and the runtime calls DEL after it: DEL removes nothing. So a refused ADD leaves a mark, if something has the name.
//!
//! The mark is removed by the next ADD, by DEL and GC once nothing has the name, by the DEL of the attachment that has it, and by any DEL of
//! an interface once the namespace has ended.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_model::link::Link;
use cni_model::netns::NumberedLink;
use cni_model::plan::Ns;
use cni_model::record::PartKind;
use serde::{Deserialize, Serialize};

use crate::attachment_record::{AttachmentRecord, is_of_another_attachment};
use crate::host::Host;
use crate::json_part::JsonPart;
use crate::ledger::REFUSAL;
use crate::namespace::{Life, OnHost as _, RecordedNamespace};
use crate::share::Share;

/// The mark of a refused ADD.
#[derive(Default, Serialize, Deserialize)]
struct Refusal {
    /// The plugin that has refused. Those before it in the list have made something.
    plugin: String,
    /// Whether everything was undone. Otherwise DEL removes what is found under the network's own name.
    is_undone: bool,
    /// The index of the interface that had the name.
    interface: Option<u32>,
    /// The container's namespace.
    namespace: Option<String>,
}

impl JsonPart for Refusal {
    const KIND: PartKind = REFUSAL;
}

impl Refusal {
    fn namespace(&self) -> Option<RecordedNamespace> {
        self.namespace.as_deref().and_then(RecordedNamespace::parse)
    }

    /// Whether it is of the entered namespace. Another one may have an interface of the same index.
    fn is_of_entered(&self, host: &mut dyn Host) -> Result<bool, Error> {
        self.namespace().map_or(Ok(true), |namespace| namespace.is_entered(host))
    }

    fn has_ended(&self, host: &mut dyn Host) -> bool {
        self.namespace().is_some_and(|namespace| namespace.life(None, host) == Life::Dead)
    }

    /// Whether what had the name is still there, under any name.
    fn is_needed(&self, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
        let number = self.namespace().and_then(|namespace| namespace.number);
        if let (Some(number), Some(interface)) = (number, self.interface)
            && let NumberedLink::Link(_) = host.namespaces().numbered_link(number.value, interface)?
        {
            return Ok(true);
        }
        has_other(at, host)
    }
}

/// Marks a refused ADD, if another network has the interface's name, or anybody for a plugin that makes interfaces. An attachment with an
/// interface needs no mark: its DEL is to remove that.
pub fn mark(
    (plugin, share): (&str, Share),
    request: &Request,
    namespace: Option<&RecordedNamespace>,
    is_undone: bool,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let at = request.attachment()?;
    let link = if share == Share::Interface { link_of_name(&at, request, host)? } else { None };
    let own = AttachmentRecord::read(&at, host.ledger())?;
    if share == Share::Nothing
        || own.is_some_and(|own| own.link.is_some() || own.maker == plugin)
        || link.is_none() && records_of_name(&at, host)?.is_empty()
    {
        return Ok(());
    }
    let (plugin, namespace) = (plugin.to_owned(), namespace.map(ToString::to_string));
    let interface = link.map(|link| link.index);
    host.apply(&Refusal { plugin, is_undone, interface, namespace }.write(&at)).map(drop)
}

/// The attachments under former names of the network: there is no record of this one, but of the same interface of the same container, in
/// the namespace that DEL names, or in one that has ended.
pub fn former(plugin: &str, share: Share, request: &Request, host: &mut dyn Host) -> Result<Vec<Attachment>, Error> {
    let at = request.attachment()?;
    if share == Share::Nothing
        || AttachmentRecord::read(&at, host.ledger())?.is_some()
        || refusal(plugin, share, request, host)?.is_some()
    {
        return Ok(Vec::new());
    }
    let is_reached = request.netns().is_some_and(|path| host.enter(path).is_ok());
    let here = if is_reached { host.namespaces().identity(Ns::Container)? } else { None };
    let mut found = records_of_name(&at, host)?;
    found.retain(|one| share != Share::Interface || one.maker == plugin);
    found.retain(|one| here.as_ref() == Some(&one.namespace.identity) || one.life(host) == Life::Dead);
    if !found.is_empty() && !can_mark(&at, host)? {
        log::warn!("no ADD can be marked as refused, so DEL leaves what {} has in other networks", at.container);
        found.clear();
    }
    Ok(found.into_iter().map(|one| one.at).collect())
}

/// Whether a mark can be written. Otherwise that of a refused ADD may be missing.
fn can_mark(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    host.apply(&Refusal::default().write(at))?;
    let is_written = Refusal::read(at, host)?.is_some();
    host.apply(&Refusal::remove(at)).map(|_| is_written)
}

/// Whether DEL of a plugin has nothing to remove: its ADD was refused, or the interface whose properties it would restore belongs to another
/// network.
pub fn has_all(plugin: &str, share: Share, request: &Request, host: &mut dyn Host) -> Result<bool, Error> {
    if share == Share::Nothing {
        return Ok(false);
    }
    if let Some(refusal) = refusal(plugin, share, request, host)? {
        return Ok(refusal.is_undone);
    }
    let at = request.attachment()?;
    if share != Share::Properties || AttachmentRecord::find(&at, host).is_some_and(|own| own.link.is_some()) {
        return Ok(false);
    }
    let link = link_of_name(&at, request, host)?;
    link.map_or(Ok(false), |link| is_of_another_attachment(&at, &link, host))
}

/// The mark of a refused ADD, while what had the name then still has it. Removes an outdated one.
fn refusal(plugin: &str, share: Share, request: &Request, host: &mut dyn Host) -> Result<Option<Refusal>, Error> {
    let at = request.attachment()?;
    let Some(refusal) = Refusal::read(&at, host)? else { return Ok(None) };
    if refusal.has_ended(host) {
        return host.apply(&Refusal::remove(&at)).map(|_| None);
    }
    if refusal.plugin != plugin && (share == Share::Interface || AttachmentRecord::find(&at, host).is_some()) {
        return Ok(None);
    }
    let link = link_of_name(&at, request, host)?;
    if link.is_some_and(|link| Some(link.index) == refusal.interface) && refusal.is_of_entered(host)?
        || has_other(&at, host)?
    {
        log::info!("ADD of {} to {} was refused, so DEL leaves alone what is not its own", at.container, at.network);
        return Ok(Some(refusal));
    }
    host.apply(&Refusal::remove(&at)).map(|_| None)
}

/// Removes the mark of an earlier ADD.
pub fn unmark(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    if Refusal::read(at, host)?.is_some() {
        host.apply(&Refusal::remove(at))?;
    }
    Ok(())
}

/// Removes the marks of attachments once nothing has the name: DEL may be called again. And those of namespaces that have ended.
pub fn sweep(is_useless: impl Fn(&Attachment) -> bool, host: &mut dyn Host) -> Result<(), Error> {
    for (at, refusal) in Refusal::all(host)? {
        if refusal.has_ended(host) || is_useless(&at) && !refusal.is_needed(&at, host)? {
            host.apply(&Refusal::remove(&at))?;
        }
    }
    Ok(())
}

/// The records of other networks of the same interface of the same container.
fn records_of_name(own: &Attachment, host: &mut dyn Host) -> Result<Vec<AttachmentRecord>, Error> {
    let mut found = AttachmentRecord::all(host.ledger())?;
    found.retain(|AttachmentRecord { at, .. }| {
        at.network != own.network && (&at.container, &at.ifname) == (&own.container, &own.ifname)
    });
    Ok(found)
}

/// Whether another network has an interface of the name, in a namespace that may live.
fn has_other(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(records_of_name(at, host)?.iter().any(|other| other.life(host) != Life::Dead))
}

/// The interface that has the attachment's name in the container.
fn link_of_name(at: &Attachment, request: &Request, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    match request.netns().map(|path| host.enter(path)) {
        Some(Ok(())) => host.link(Ns::Container, &at.ifname),
        Some(Err(_)) | None => Ok(None),
    }
}
