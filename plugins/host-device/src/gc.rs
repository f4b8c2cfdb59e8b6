//! GC: moves the links of attachments that are not valid back to the host, and runs GC of the IPAM plugin.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_core::valid::ValidAttachments;
use cni_interface::ipam;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::give_back::{ReturnRequest, give_back};
use crate::moved_link::MovedLink;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    let loans = removal.attempt(|host| MovedLink::invalid(&request.network, valid, host)).unwrap_or_default();
    for (_, loan) in loans {
        removal.attempt(|host| {
            let at = loan.attachment()?;
            give_back(&ReturnRequest { at, netns: None, configured: None, asked: None }, host)
        });
    }
    removal.attempt(|host| ipam::forward(request, Command::Gc, host));
    removal.finish()
}
