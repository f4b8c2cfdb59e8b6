//! DEL: rules go before the interface, and all goes before the addresses are given to others.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::{ipam, leftovers, masquerade};
use cni_plugin::host::Host;
use cni_plugin::plan::Step;
use cni_plugin::removal::Removal;

use crate::config::DelConfig;
use crate::spoof;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = DelConfig::load(request)?;
    let at = request.attachment()?;
    let mut removal = Removal::new(host);
    let sandbox = removal.attempt(|host| leftovers::observe_sandbox(request, &at, host)).unwrap_or_default();
    if config.masquerade {
        let unwanted = removal.attempt(|host| masquerade::removals(request, &at, &sandbox, host));
        unwanted.into_iter().flatten().for_each(|unwanted| removal.step(&Step::remove_rules(unwanted)));
    }
    ipam::del_with(request, &mut removal, |removal| {
        removal.attempt(|host| leftovers::remove_veth(&at, &sandbox, host));
        if config.spoof_check {
            removal.attempt(|host| spoof::remove(&at, host));
        }
    });
    removal.finish()
}
