//! CHECK: verifies that the device is as ADD made it, and that frames are redirected.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::Interface;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::{Ns, TapOptions};
use cni_plugin::host::Host;

use crate::add::{interface, mtu};
use crate::config::Config;
use crate::error::{CheckError, RedirectError};
use crate::pair::{self, TapEntries};

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let result = request.prev_result()?.ok_or(RedirectError::NoPrevResult)?;
    let at = request.attachment()?;
    let pair = TapEntries::of(&result, &at.container)?;
    host.enter(request.netns().unwrap_or_default())?;
    let link = interface(&at.ifname, host)?;
    let tap = verify::present(Ns::Container, &IfName::parse(&pair.tap.name)?, host)?;
    verify_device(&tap, &config)?;
    verify::up(Ns::Container, &tap)?;
    verify_mtu(&tap, &link)?;
    verify_mac(pair.guest, &link)?;
    verify_redirect(&link, &tap, host)?;
    verify_redirect(&tap, &link, host)
}

/// Compares the device with the configuration. Owner and group are compared if they are given: a runtime may omit the
/// arguments. Kernels before 4.17 do not report them.
fn verify_device(link: &Link, config: &Config) -> Result<(), CheckError> {
    let name = link.name.clone();
    if link.kind.as_deref() != Some(crate::KIND) {
        return Err(CheckError::NotTap { name });
    }
    let Some(found) = link.tap else { return Ok(()) };
    let wanted =
        TapOptions { owner: config.owner.or(found.owner), group: config.group.or(found.group), queues: config.queues };
    if found == wanted { Ok(()) } else { Err(CheckError::Settings { name, found, wanted }) }
}

/// A plugin behind this one may give the interface a smaller one.
fn verify_mtu(tap: &Link, link: &Link) -> Result<(), CheckError> {
    let (found, wanted) = (tap.mtu, mtu(link));
    if found >= wanted { Ok(()) } else { Err(CheckError::Mtu { name: tap.name.clone(), found, wanted }) }
}

fn verify_mac(guest: &Interface, link: &Link) -> Result<(), CheckError> {
    if guest.mac.is_empty() || link.mac.as_ref().is_some_and(|mac| mac.is(&guest.mac)) {
        return Ok(());
    }
    let found = link.mac.as_ref().map(ToString::to_string).unwrap_or_default();
    Err(CheckError::Mac { ifname: link.name.clone(), reported: guest.mac.clone(), found })
}

fn verify_redirect(from: &Link, to: &Link, host: &mut dyn Host) -> Result<(), Error> {
    if pair::targets(Some(from), host)?.contains(&to.index) {
        return Ok(());
    }
    Err(CheckError::NoRedirect { from: from.name.clone(), to: to.name.clone() }.into())
}
