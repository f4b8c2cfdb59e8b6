//! DEL: removes the link before its addresses are released. A missing object is success.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_interface::{ipam, leftovers};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::KIND;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| leftovers::remove_child(KIND, request, host));
    removal.attempt(|host| ipam::forward(request, Command::Del, host));
    removal.finish()
}
