//! GC: removes the records of attachments that are not valid. Their interfaces ended with the containers.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_model::plan::Step;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::changes::Changes;
use crate::config::backup_in;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let stale = Changes::invalid(&request.network, valid, host)?;
    let mut removal = Removal::new(host);
    for (key, changes) in stale {
        let file = backup_in(&changes.data_dir, &changes.container, &changes.ifname);
        removal.attempt(|host| host.apply(&Step::RemoveStateFile { file: file?, directories: Vec::new() }));
        removal.step(&Step::RemoveRecord { key });
    }
    removal.finish()
}
