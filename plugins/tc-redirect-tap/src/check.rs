//! CHECK: verifies that the device is as ADD made it, and that frames are redirected.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::Interface;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::{Ns, TapOptions};
use cni_plugin::host::Host;

use crate::add::{interface, mtu, prev_result};
use crate::config::Config;
use crate::pair::{self, TapEntries};

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let result = prev_result(request)?;
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
fn verify_device(link: &Link, config: &Config) -> Result<(), Error> {
    let name = &link.name;
    if link.kind.as_deref() != Some(crate::KIND) {
        let details = format!("see ip -details link show {name}");
        return Err(fail!(CheckFailed, "interface {name} is not a tap device", details: "{details}"));
    }
    let Some(found) = link.tap else { return Ok(()) };
    let wanted =
        TapOptions { owner: config.owner.or(found.owner), group: config.group.or(found.group), queues: config.queues };
    if found == wanted {
        return Ok(());
    }
    let details = format!("see ip -details link show {name}");
    Err(fail!(CheckFailed, "tap device {name} is {found}, and not {wanted}", details: "{details}"))
}

/// A plugin behind this one may give the interface a smaller one.
fn verify_mtu(tap: &Link, link: &Link) -> Result<(), Error> {
    let (name, found, wanted) = (&tap.name, tap.mtu, mtu(link));
    if found >= wanted {
        return Ok(());
    }
    let details = format!("see ip -details link show {name}");
    Err(fail!(CheckFailed, "tap device {name} has MTU {found}, and not {wanted}", details: "{details}"))
}

fn verify_mac(guest: &Interface, link: &Link) -> Result<(), Error> {
    if guest.mac.is_empty() || link.mac.as_ref().is_some_and(|mac| mac.is(&guest.mac)) {
        return Ok(());
    }
    let found = link.mac.as_ref().map(ToString::to_string).unwrap_or_default();
    let (ifname, reported) = (&link.name, &guest.mac);
    let text = format!("the virtual machine has MAC address {reported:?}, and interface {ifname} has {found:?}");
    Err(fail!(CheckFailed, "{text}", details: "see ip link show {ifname}"))
}

fn verify_redirect(from: &Link, to: &Link, host: &mut dyn Host) -> Result<(), Error> {
    if pair::targets(Some(from), host)?.contains(&to.index) {
        return Ok(());
    }
    let (from, to) = (&from.name, &to.name);
    let details = format!("see tc filter show dev {from} ingress");
    Err(fail!(CheckFailed, "frames that {from} receives are not redirected to {to}", details: "{details}"))
}
