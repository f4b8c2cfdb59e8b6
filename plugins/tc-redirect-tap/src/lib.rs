//! The tc-redirect-tap plugin: creates a tap device in the container, and exchanges all frames between it and the
//! interface `CNI_IFNAME`, which an earlier plugin has made. A virtual machine that opens the device takes over that
//! interface's MAC address and IP addresses, which the result names.

use std::path::Path;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_core::version::Version;
use cni_interface::{alias, leftovers, naming, verify};
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step, Sysctl, SysctlNeed, TapOptions};
use cni_model::traffic::FilterRank;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::missing::MissingPart;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use crate::config::Config;
use crate::guest::{KIND, TapEntries, targets};

mod config;
mod guest;

/// The plugin.
pub struct TcRedirectTap;

impl Plugin for TcRedirectTap {
    fn kind(&self) -> &'static str {
        "tc-redirect-tap"
    }

    /// The original has no releases.
    fn reference_level(&self) -> &'static str {
        "0.0.0"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_3_0
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    /// Creates the device, exchanges its frames with those of the interface, and adds the virtual machine to the result.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let mut result = prev_result(request)?;
        let (at, netns) = (request.attachment()?, request.netns().unwrap_or_default());
        journal.host().enter(netns)?;
        let link = interface(&at.ifname, journal.host())?;
        let inside = guest::inside(&result, netns, journal.host())?;
        let ips = guest::addresses(&result, &at.ifname, |interface| inside.contains(interface))?;
        refuse_redirected(&link, journal.host())?;
        let name = config.name.choose(journal.host())?;
        let (mac, mtu) = (Some(naming::random_mac(journal.host())), Some(mtu(&link)));
        let (tap, alias) = (config.tap(journal.host()), Some(alias::of(&at)));
        let kind = LinkKind::Tap { tap, label: None, headers: config.headers, alias };
        let device = NewLink { name: name.clone(), mac, mtu, if_present: IfPresent::Refuse, kind };
        journal.apply(&plan(&at.ifname, device))?;
        let tap = verify::present(Ns::Container, &name, journal.host())?;
        guest::append(&mut result, request, &at, (&tap, &link), ips);
        Ok(result)
    }

    /// Ends the exchange of frames, and removes the device. It needs neither arguments nor a result.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        if !host.enter_if_exists(request.netns().unwrap_or_default())? {
            return Ok(());
        }
        let at = request.attachment()?;
        let result = request.prev_result().unwrap_or_default();
        let link = host.link(Ns::Container, &at.ifname)?;
        let taps = guest::devices(&at, result.as_ref(), link.as_ref(), host)?;
        let mut removal = Removal::new(host);
        for tap in &taps {
            removal.attempt(|host| remove(tap, link.as_ref().map(|_| &at.ifname), host));
        }
        removal.attempt(|host| remove_redirects_to_deleted(&at.ifname, link.as_ref(), host));
        removal.finish()
    }

    /// Verifies that the device is as ADD made it, and that frames are redirected.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
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

    /// Checks that the kernel can create the device and redirect frames.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        Config::load(request)?;
        let devices = host.devices().entries(Path::new("/dev/net"))?.unwrap_or_default();
        if !devices.iter().any(|name| name == "tun") {
            return Err(fail!(NotAvailable, "/dev/net/tun does not exist, load the module tun"));
        }
        match host.devices().missing_redirect_part()? {
            Some(part) => Err(fail!(NotAvailable, "the kernel cannot redirect frames, load the module {part}")),
            None => Ok(()),
        }
    }

    /// The directions in which no frames are redirected any more. A missing interface or device takes an ADD.
    fn find_missing(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
        let result = verify::prev_result(request)?;
        let at = request.attachment()?;
        let tap = IfName::parse(&TapEntries::of(&result, &at.container)?.tap.name)?;
        let ends = (host.link(Ns::Container, &tap)?.filter(guest::is_tap), host.link(Ns::Container, &at.ifname)?);
        let (Some(tap), Some(link)) = ends else { return Ok(Vec::new()) };
        let mut parts = Vec::new();
        for (from, to) in [(&tap, &link), (&link, &tap)] {
            if !targets(Some(from), host)?.contains(&to.index) {
                let redirect = redirect(&IfName::parse(&from.name)?, &IfName::parse(&to.name)?);
                let missing = format!("tc filter dev {} ingress redirect dev {}", from.name, to.name);
                parts.push(MissingPart { missing, plan: Plan::of_owned([redirect]) });
            }
        }
        Ok(parts)
    }
}

/// What helps where there is no interface to redirect.
const BEHIND: &str = "tc-redirect-tap comes after the plugin that makes the interface";

/// The result of the plugins before.
fn prev_result(request: &Request) -> Result<CniResult, Error> {
    request.prev_result()?.ok_or_else(|| {
        let text = "no previous result was found, was this plugin chained with a previous one?";
        fail!(InvalidConfig, "{text}", details: "{BEHIND}")
    })
}

/// The interface whose frames are redirected.
fn interface(ifname: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    host.link(Ns::Container, ifname)?.ok_or_else(|| {
        let name = ifname.as_str();
        let text = format!("did not find expected network device with name {name:?}");
        fail!(InvalidConfig, "failed to find redirect interface {name:?}: {text}", details: "{BEHIND}")
    })
}

/// The frames of an interface can go to one device only.
fn refuse_redirected(link: &Link, host: &mut dyn Host) -> Result<(), Error> {
    for index in targets(Some(link), host)? {
        if let Some(to) = host.link_by_index(Ns::Container, index)? {
            let text = format!("{:?}: its frames go to {:?} already", link.name, to.name);
            return Err(fail!(
                Conflict,
                "failed to redirect interface {text}",
                details: "call DEL before ADD is repeated"
            ));
        }
    }
    Ok(())
}

/// The greatest MTU of a tap device: `MAX_MTU` of `drivers/net/tun.c` without an Ethernet header.
const MAX_MTU: u32 = 65521;

/// The MTU of the device for an interface.
fn mtu(link: &Link) -> u32 {
    if link.mtu > MAX_MTU {
        log::warn!(
            "interface {} has MTU {}; its tap device gets {MAX_MTU}, the most that one can have",
            link.name,
            link.mtu
        );
    }
    link.mtu.min(MAX_MTU)
}

/// The device has its alias before it is persistent, so DEL finds it after an ADD that was killed. Without an IPv6 address of its
/// own it sends nothing into the virtual machine. The filters on the device are deleted with it.
fn plan(ifname: &IfName, device: NewLink) -> Plan {
    let (ns, name) = (Ns::Container, device.name.clone());
    let key = Sysctl::interface(Family::V6, &name, "addr_gen_mode");
    let mut plan = Plan::default();
    plan.owned(Step::CreateLink { ns, link: device });
    plan.within(Step::SetSysctl { ns, key, value: "1".to_owned(), need: SysctlNeed::Wanted });
    plan.within(Step::set_link(ns, &name, LinkSetting::Up));
    plan.within(redirect(&name, ifname));
    plan.owned(redirect(ifname, &name));
    plan
}

/// Sends all frames that one link receives out of another. Filters of others on the link come first.
fn redirect(from: &IfName, to: &IfName) -> Step {
    Step::AddRedirect { ns: Ns::Container, name: from.clone(), to: to.clone(), rank: FilterRank::Last }
}

/// Removes a device, by its index: the container may rename it at any time. Before, the interface stops to send its frames
/// there, unless the device has a name that this program cannot write. If that fails, the device stays: by it the next DEL finds
/// what is left.
fn remove(tap: &Link, interface: Option<&IfName>, host: &mut dyn Host) -> Result<(), Error> {
    if let (Some(name), Ok(to)) = (interface, IfName::parse(&tap.name)) {
        host.apply(&Step::RemoveRedirect { ns: Ns::Container, name: name.clone(), to })?;
    }
    leftovers::remove_found(tap.index, host).map(drop)
}

/// The index that a redirect to a deleted link has.
const DELETED: u32 = 0;

/// A filter that leads to a deleted device drops every frame.
fn remove_redirects_to_deleted(name: &IfName, interface: Option<&Link>, host: &mut dyn Host) -> Result<(), Error> {
    if targets(interface, host)?.contains(&DELETED) {
        host.apply(&Step::RemoveRedirect { ns: Ns::Container, name: name.clone(), to: name.clone() })?;
    }
    Ok(())
}

/// Compares the device with the configuration. Owner and group are compared if they are given: a runtime may omit the
/// arguments. Kernels before 4.17 do not report them.
fn verify_device(link: &Link, config: &Config) -> Result<(), Error> {
    let name = &link.name;
    if link.kind.as_deref() != Some(KIND) {
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
    if targets(Some(from), host)?.contains(&to.index) {
        return Ok(());
    }
    let (from, to) = (&from.name, &to.name);
    let details = format!("see tc filter show dev {from} ingress");
    Err(fail!(CheckFailed, "frames that {from} receives are not redirected to {to}", details: "{details}"))
}
