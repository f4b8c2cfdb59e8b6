//! GC: removes the records of attachments that are not valid. The kernel has deleted their routes with their
//! interfaces.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_model::plan::Step;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::record::RouteRecord;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let stale = RouteRecord::invalid(&request.network, valid, host)?;
    let mut removal = Removal::new(host);
    stale.into_iter().for_each(|(key, _)| removal.step(&Step::RemoveRecord { key }));
    removal.finish()
}
