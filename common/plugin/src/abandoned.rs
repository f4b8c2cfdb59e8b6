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
pub const LENDER: &str = "host-device";

/// Removes the interface of an earlier ADD of the attachment, which `maker` is about to add to `now`, if no process can
/// use it. An interface with a process stays; its address is then refused. An interface that another plugin has recorded stays,
/// since it may be one of the host that was lent. Returns whether nothing is left of the earlier ADD: its namespace has ended, or its
/// interface has been removed.
pub fn remove(
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
