//! DEL: removes the rules before the interface, and both before the addresses are released, which stay reserved if the
//! interface cannot be searched for or removed. It removes what ADD made, whatever the configuration says by then.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::{ipam, leftovers, masquerade};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin as _;

use crate::Bridge;
use crate::config::DelConfig;
use crate::spoof;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = DelConfig::load(request)?;
    let at = request.attachment()?;
    let mut removal = Removal::new(host);
    let sandbox = removal.attempt(|host| leftovers::observe_sandbox(request, &at, host));
    let is_known = sandbox.is_some();
    let sandbox = sandbox.unwrap_or_default();
    let has_masquerade = config.masquerade || removal.attempt(|host| masquerade::is_recorded(&at, host)) == Some(true);
    if !has_masquerade {
        removal.attempt(|host| {
            masquerade::remove_made_by_reference(Bridge.kind(), request, &at, &sandbox, host);
            Ok(())
        });
    } else if removal.attempt(|host| masquerade::remove(request, &at, &sandbox, host)).is_some() {
        removal.step(&masquerade::forget(&at));
    }
    ipam::del_with(request, &mut removal, |removal| {
        let removed = removal.attempt(|host| leftovers::remove_veth(&at, &sandbox, host));
        removal.attempt(|host| spoof::remove(&at, host));
        removed.filter(|()| is_known)
    });
    removal.finish()
}
