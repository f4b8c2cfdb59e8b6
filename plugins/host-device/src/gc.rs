//! GC: moves the links of attachments that are not valid back to the host, and runs GC of the IPAM plugin if none of them
//! stays.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_interface::ipam;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::give_back::{ReturnRequest, give_back};
use crate::moved_link::MovedLink;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    ipam::gc_with(request, &mut removal, |removal| {
        removal.attempt(|host| give_all_back(request, valid, host)).map(|()| Vec::new())
    });
    removal.finish()
}

fn give_all_back(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let loans = MovedLink::invalid(&request.network, valid, host)?;
    let mut removal = Removal::new(host);
    for (_, loan) in loans {
        removal.attempt(|host| {
            let at = loan.attachment()?;
            give_back(&ReturnRequest { at, request: None, configured: None }, host)
        });
    }
    removal.finish()
}
