//! GC: removes the records of attachments that are not valid. Their routes ended with their interfaces.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_model::plan::Step;
use cni_model::record::RecordKey;
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::record::{ROUTES, RouteRecord, read};

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let is_stale = |record: &RouteRecord| {
        record.network == request.network.as_str() && !valid.contains(&record.container, Some(&record.ifname))
    };
    let mut stale = Vec::new();
    for name in host.records().names(ROUTES)? {
        let key = RecordKey::new(ROUTES, &name)?;
        if read(&key, host)?.is_some_and(|record| is_stale(&record)) {
            stale.push(key);
        }
    }
    let mut removal = Removal::new(host);
    stale.into_iter().for_each(|key| removal.step(&Step::RemoveRecord { key }));
    removal.finish()
}
