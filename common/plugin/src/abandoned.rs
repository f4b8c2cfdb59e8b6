//! Removes the interface that an earlier ADD made for the same attachment, if its namespace still exists but has no
//! process.
//!
//! If the name of a namespace is lost, Nomad calls ADD with a new namespace, while its executor keeps a descriptor of
//! the old one. As long as the old interface has the address, the attachment could not be added again.

use cni_core::error::Error;

use crate::attachment_record::AttachmentRecord;
use crate::host::Host;
use crate::namespace::{Life, RecordedNamespace};
use cni_model::netns::{NumberedLink, Occupancy};
use cni_model::plan::Step;

/// The plugin whose interfaces belong to the host, and are moved back instead of removed.
const LENDER: &str = "host-device";

/// Removes the interface of an earlier ADD of the attachment, which `now` is about to be added to, if no process can
/// use it. An interface with a process stays; host-local then refuses the address.
pub fn remove(earlier: &AttachmentRecord, now: &RecordedNamespace, host: &mut dyn Host) -> Result<(), Error> {
    let (Some(link), Some(number)) = (&earlier.link, earlier.namespace.number) else { return Ok(()) };
    if earlier.maker == LENDER {
        return Ok(());
    }
    if earlier.namespace.identity == now.identity || earlier.life(host) != Life::Alive {
        return Ok(());
    }
    match host.namespaces().numbered_link(number.value, link.index)? {
        NumberedLink::Link(found) if link.may_be(&found) => {}
        NumberedLink::Link(_) | NumberedLink::NoLink | NumberedLink::NoNamespace => return Ok(()),
    }
    match host.namespaces().occupancy(number.value, link.index)? {
        Occupancy::Empty => {
            log::info!("removing the interface of a former ADD of {}: no process uses it", earlier.at.container);
            let removed = host.apply(&Step::RemoveNumberedLink { number: number.value, index: link.index });
            removed.map(drop).or_else(|error| {
                log::warn!("the interface of a former ADD of {} stays: {}", earlier.at.container, error.in_full());
                Ok(())
            })
        }
        Occupancy::Occupied(path) => {
            log::info!("the interface of a former ADD of {} stays: a process is in {path}", earlier.at.container);
            Ok(())
        }
        Occupancy::Unknown(reason) => {
            log::info!("the interface of a former ADD of {} stays: {reason}", earlier.at.container);
            Ok(())
        }
    }
}
