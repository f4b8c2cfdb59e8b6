//! DEL: sets `lo` down, if the namespace still exists.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_model::netns::NetnsError;
use cni_model::plan::{LinkSetting, Ns};
use cni_plugin::host::{Host, LinkQuery};

use crate::lo;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => set_down(host),
        Err(NetnsError::Gone { .. }) => Ok(()),
        Err(error @ NetnsError::Failed { .. }) => Err(error.into()),
    }
}

/// Sets `lo` down. Another interface that is up belongs to another attachment: another network of the same container,
/// or another container, to which the path leads by now. In a list, DEL of this plugin is the last.
fn set_down(host: &mut dyn Host) -> Result<(), Error> {
    let others = host.links(Ns::Container, LinkQuery::All)?;
    if others.iter().any(|link| link.up && link.name != "lo") {
        return Ok(());
    }
    host.apply(&lo::set(LinkSetting::Down)).map(|_| ())
}
