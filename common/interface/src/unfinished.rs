//! Removes the interface of an ADD that has failed, as DEL does: by its index, and wherever the container has moved it.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::namespace::{RecordedLink, RecordedNamespace};

use crate::leftovers::remove_child_of;
use crate::verify;

/// Finds the link that was just created inside the container, and has a rollback remove it before the addresses that it may
/// have are released.
///
/// # Errors
/// If the link is missing under its name.
pub fn remove_on_failure(kind: &'static str, request: &Request, journal: &mut Journal<'_>) -> Result<Link, Error> {
    let link = verify::present(Ns::Container, &request.attachment()?.ifname, journal.host())?;
    let (made, request) = (RecordedLink::of(&link), request.clone());
    journal.remove_link_by(Box::new(move |host| remove(kind, made, &request, host)));
    Ok(link)
}

/// Removes the link. If that fails, the link is recorded, so that DEL finds it.
///
/// # Errors
/// If the namespace cannot be identified, or the link cannot be removed. Then the address is kept, and the undo step of the link's
/// creation still removes the link if its index is in the namespace.
fn remove(kind: &'static str, made: RecordedLink, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let record = record(kind, made, request, host)?;
    let removed = remove_child_of(kind, record.clone(), request, host);
    if let Some(record) = record.filter(|_| removed.is_err()) {
        let written = host.apply(&record.write());
        written.inspect_err(|error| log::warn!("the interface is not recorded: {}", error.in_full())).ok();
    }
    removed
}

/// The record of the attachment with this link, as at the end of ADD. `None` if the namespace cannot be identified.
fn record(
    kind: &'static str,
    made: RecordedLink,
    request: &Request,
    host: &mut dyn Host,
) -> Result<Option<AttachmentRecord>, Error> {
    let at = request.attachment()?;
    let maker = AttachmentRecord::find(&at, host).map_or_else(|| kind.to_owned(), |record| record.maker);
    let namespace = RecordedNamespace::observe(request, host)?;
    Ok(namespace.map(|namespace| AttachmentRecord { at, maker, namespace, link: Some(made), is_again: false }))
}
