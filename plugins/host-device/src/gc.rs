//! GC: the links of attachments that are not valid go back to the host, and leases are the IPAM plugin's.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_core::valid::ValidAttachments;
use cni_interface::ipam;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::give_back::{Borrower, give_back};
use crate::loan::Loan;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    let loans = removal.attempt(|host| Loan::invalid(&request.network, valid, host)).unwrap_or_default();
    for (_, loan) in loans {
        removal.attempt(|host| {
            let at = loan.attachment()?;
            give_back(&Borrower { at, netns: None, configured: None, asked: None }, host)
        });
    }
    removal.attempt(|host| ipam::forward(request, Command::Gc, host));
    removal.finish()
}
