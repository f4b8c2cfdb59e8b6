//! DEL where another network, or another project, has the interface of this name in the container.
//!
//! Either the network was renamed after ADD: DEL removes what ADD has made under the former name. Or ADD was refused, perhaps since the name
//! is taken, and the runtime calls DEL after it: DEL removes nothing. So a refused ADD leaves a mark, if something has the name.
//!
//! The mark is removed by the next ADD, by a DEL once nothing has the name, by the DEL of the attachment that has it, by GC, and by
//! any DEL of an interface once the namespace has ended.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_model::link::Link;
use cni_model::plan::{Ns, Step};
use cni_model::record::RecordKind;
use serde::{Deserialize, Serialize};

use crate::attachment_record::{AttachmentRecord, is_of_another_attachment};
use crate::host::Host;
use crate::json_record::JsonRecord;
use crate::namespace::{Life, RecordedNamespace};
use crate::share::Share;

/// The mark of a refused ADD.
#[derive(Serialize, Deserialize)]
struct Refusal {
    network: String,
    container: String,
    ifname: String,
    /// The plugin that has refused. Those before it in the list have made something.
    plugin: String,
    /// Whether everything was undone. Otherwise DEL removes what is found under the network's own name.
    is_undone: bool,
    /// The index of the interface that had the name.
    interface: Option<u32>,
    /// The container's namespace.
    namespace: Option<String>,
}

impl JsonRecord for Refusal {
    const KIND: RecordKind = RecordKind::new("refused");

    fn names(&self) -> [&str; 3] {
        [&self.network, &self.container, &self.ifname]
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
    let own = AttachmentRecord::read(&at, host.records())?;
    if share == Share::Nothing
        || own.is_some_and(|own| own.link.is_some() || own.maker == plugin)
        || link.is_none() && records_of_name(&at, host)?.is_empty()
    {
        return Ok(());
    }
    let [network, container, ifname] = [at.network.to_string(), at.container.to_string(), at.ifname.to_string()];
    let (plugin, namespace) = (plugin.to_owned(), namespace.map(ToString::to_string));
    let interface = link.map(|link| link.index);
    let refusal = Refusal { network, container, ifname, plugin, is_undone, interface, namespace };
    host.apply(&refusal.write(&at)).map(drop)
}

/// The attachments under former names of the network: there is no record of this one, but of the same interface of the same container, in
/// the namespace that DEL names, or in one that has ended.
pub fn former(plugin: &str, share: Share, request: &Request, host: &mut dyn Host) -> Result<Vec<Attachment>, Error> {
    let at = request.attachment()?;
    if share == Share::Nothing
        || AttachmentRecord::read(&at, host.records())?.is_some()
        || refusal(plugin, share, request, host)?.is_some()
    {
        return Ok(Vec::new());
    }
    let is_reached = request.netns().is_some_and(|path| host.enter(path).is_ok());
    let here = if is_reached { host.namespaces().identity(Ns::Container)? } else { None };
    let mut found = records_of_name(&at, host)?;
    found.retain(|one| share != Share::Interface || one.maker == plugin);
    found.retain(|one| here.as_ref() == Some(&one.namespace.identity) || one.life(host) == Life::Dead);
    Ok(found.into_iter().map(|one| one.at).collect())
}

/// Whether DEL of a plugin has nothing to remove: its ADD was refused, or the interface of which it would restore properties belongs to
/// another network.
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
    if refusal.plugin != plugin && (share == Share::Interface || AttachmentRecord::find(&at, host).is_some()) {
        return Ok(None);
    }
    let link = link_of_name(&at, request, host)?;
    if link.is_some_and(|link| Some(link.index) == refusal.interface)
        || records_of_name(&at, host)?.iter().any(|other| other.life(host) != Life::Dead)
    {
        log::info!("ADD of {} to {} was refused, so DEL leaves alone what is not its own", at.container, at.network);
        return Ok(Some(refusal));
    }
    host.apply(&Refusal::remove(&at)).map(|_| None)
}

/// Removes the marks of attachments, by their network, container and interface name, and those of namespaces that have ended.
pub fn sweep(is_useless: impl Fn([&str; 3]) -> bool, host: &mut dyn Host) -> Result<(), Error> {
    for (key, refusal) in Refusal::all(host)? {
        let namespace = refusal.namespace.as_deref().and_then(RecordedNamespace::parse);
        if is_useless(refusal.names()) || namespace.is_some_and(|namespace| namespace.life(None, host) == Life::Dead) {
            host.apply(&Step::RemoveRecord { key })?;
        }
    }
    Ok(())
}

/// The records of other networks of the same interface of the same container.
fn records_of_name(at: &Attachment, host: &mut dyn Host) -> Result<Vec<AttachmentRecord>, Error> {
    let mut found = AttachmentRecord::all_but([at], host.records())?;
    found.retain(|one| one.at.container == at.container && one.at.ifname == at.ifname);
    Ok(found)
}

/// The interface that has the attachment's name in the container.
fn link_of_name(at: &Attachment, request: &Request, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    match request.netns().map(|path| host.enter(path)) {
        Some(Ok(())) => host.link(Ns::Container, &at.ifname),
        Some(Err(_)) | None => Ok(None),
    }
}
