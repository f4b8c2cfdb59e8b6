//! DEL: removes the rules before the interface, and both before the addresses are released, which stay reserved if the
//! interface cannot be searched for or removed. The kernel deletes the host's routes and the gateway's address with the
//! interface. Rules are removed even if the configuration no longer asks for them.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::{ipam, leftovers, masquerade};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let mut removal = Removal::new(host);
    let sandbox = removal.attempt(|host| leftovers::observe_sandbox(request, &at, host));
    let is_known = sandbox.is_some();
    let sandbox = sandbox.unwrap_or_default();
    removal.attempt(|host| masquerade::remove(request, &at, &sandbox, host));
    ipam::del_with(request, &mut removal, |removal| {
        removal.attempt(|host| leftovers::remove_veth(&at, &sandbox, host)).filter(|()| is_known)
    });
    removal.finish()
}
