//! DEL: removes the link before its addresses are released, which stay reserved if that fails. A missing object is success.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::{ipam, leftovers};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::KIND;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    ipam::del_with(request, &mut removal, |removal| {
        removal.attempt(|host| leftovers::remove_child(KIND, request, host))
    });
    removal.finish()
}
