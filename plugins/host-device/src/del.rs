//! DEL: moves the link back to the host before its addresses are released, which stay reserved if that fails. The
//! configured device does not matter: it may be unplugged.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_interface::ipam;
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::config::{Config, configured_name};
use crate::devices::{self, DeviceSearch};
use crate::give_back::{ReturnRequest, give_back};
use crate::moved_link::MovedLink;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let configured = configured_name(request);
    let mut removal = Removal::new(host);
    let config = Config::load(request);
    let has_link = has_loan(&at, &mut removal) || !is_without_link(&config, &mut removal);
    ipam::del_with(request, &mut removal, |removal| {
        let borrower = ReturnRequest { at, request: Some(request), configured: configured.as_deref() };
        if has_link { removal.attempt(|host| give_back(&borrower, host)) } else { Some(()) }
    });
    removal.finish()
}

/// Whether ADD has recorded a moved link. The configuration may no longer ask for one.
fn has_loan(at: &Attachment, removal: &mut Removal<'_>) -> bool {
    removal.attempt(|host| MovedLink::read(at, host)).flatten().is_some()
}

/// Whether ADD has moved nothing, according to the configuration.
fn is_without_link(config: &Result<Config, Error>, removal: &mut Removal<'_>) -> bool {
    let say = |error: &Error| log::debug!("DEL goes by what it finds: {}", error.in_full());
    let target = removal.attempt(|host| match config {
        Ok(config) => Ok(devices::resolve(config, host.devices()).inspect_err(say).ok()),
        Err(error) => {
            say(error);
            Ok(None)
        }
    });
    target.flatten() == Some(DeviceSearch::Dpdk)
}
