//! DEL: the link goes back to the host before its addresses are released. Which device the configuration names does not
//! matter by then: it may be unplugged.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::ipam;
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::config::{Config, configured_name};
use crate::devices::{self, Target};
use crate::give_back::{Borrower, give_back};

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let configured = configured_name(request);
    let mut removal = Removal::new(host);
    let has_link = !is_without_link(request, &mut removal);
    ipam::del_with(request, &mut removal, |removal| {
        if has_link {
            let borrower = Borrower { at, netns: request.netns(), configured: configured.as_deref() };
            removal.attempt(|host| give_back(&borrower, host));
        }
    });
    removal.finish()
}

/// Whether ADD has moved nothing, as far as the configuration can still be read.
fn is_without_link(request: &Request, removal: &mut Removal<'_>) -> bool {
    let target = removal.attempt(|host| {
        let target = Config::load(request).and_then(|config| devices::resolve(&config, host.devices()));
        Ok(target.inspect_err(|error| log::debug!("DEL goes by what it finds: {}", error.in_full())).ok())
    });
    target.flatten() == Some(Target::Dpdk)
}
