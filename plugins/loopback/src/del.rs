//! DEL: `lo` is set down, where the namespace still exists.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::plan::LinkSetting;

use crate::lo;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => host.apply(&lo::set(LinkSetting::Down)).map(|_| ()),
        Err(NetnsError::Gone { .. }) => Ok(()),
        Err(error @ NetnsError::Failed { .. }) => Err(error.into()),
    }
}
