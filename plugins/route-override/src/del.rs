//! DEL: removes the routes that ADD added, and restores those that it removed, according to the record. Usually the
//! runtime removes the interface next, so a route that the kernel no longer accepts does not fail DEL.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_interface::tables;
use cni_model::netns::NetnsError;
use cni_model::plan::{Ns, Step};
use cni_model::routing::FullRoute;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::record::{RouteRecord, is_same};
use crate::routes;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => restore(request, &at, host)?,
        Err(NetnsError::Gone { .. }) => {}
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    }
    host.apply(&RouteRecord::remove(&at)).map(|_| ())
}

fn restore(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let RouteRecord { removed, added, .. } = RouteRecord::earlier(at, host)?;
    if removed.is_empty() && added.is_empty() || host.link(Ns::Container, &at.ifname)?.is_none() {
        return Ok(());
    }
    if let Err(error) = tables::lock(request, host) {
        log::warn!("DEL goes on without its lock: {}", error.in_full());
    }
    let (link, found) = routes::observe(&at.ifname, &[], host)?;
    let (mut removal, ns) = (Removal::new(host), Ns::Container);
    let added = added.into_iter().rev().filter(|route| route.link == link);
    // The kernel holds more of a route than its key.
    let as_found = |route: FullRoute| found.iter().find(|found| is_same(found, &route)).cloned().unwrap_or(route);
    added.for_each(|route| removal.step(&Step::RemoveFullRoute { ns, route: as_found(route) }));
    let removed = removed.into_iter().filter(|route| route.link == link);
    removed.for_each(|route| removal.step(&Step::RestoreRoute { ns, route }));
    removal.finish()
}
