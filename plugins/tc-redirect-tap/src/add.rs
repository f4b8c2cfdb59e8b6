//! ADD: creates the device, exchanges its frames with those of the interface, and adds the virtual machine to the
//! result.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::{alias, naming, verify};
use cni_model::link::Link;
use cni_model::plan::{
    IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step, Sysctl, SysctlNeed, TapHeaders, TapOptions,
};
use cni_model::traffic::FilterRank;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::Config;
use crate::{guest, pair};

/// The greatest MTU of a tap device: `MAX_MTU` of `drivers/net/tun.c` without an Ethernet header.
const MAX_MTU: u32 = 65521;

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let mut result = prev_result(request)?;
    let (at, netns) = (request.attachment()?, request.netns().unwrap_or_default());
    journal.host().enter(netns)?;
    let link = interface(&at.ifname, journal.host())?;
    let inside = guest::inside(&result, netns, journal.host())?;
    let ips = guest::addresses(&result, &at.ifname, |interface| inside.contains(interface))?;
    refuse_redirected(&link, journal.host())?;
    let device = NewDevice {
        name: config.name.choose(journal.host())?,
        mac: naming::random_mac(journal.host()),
        mtu: mtu(&link),
        tap: config.tap(journal.host()),
        headers: config.headers,
    };
    journal.apply(&plan(&at, &device))?;
    let tap = verify::present(Ns::Container, &device.name, journal.host())?;
    guest::append(&mut result, request, &at, (&tap, &link), ips);
    Ok(result)
}

/// What helps where there is no interface to redirect.
const BEHIND: &str = "tc-redirect-tap comes after the plugin that makes the interface";

/// The result of the plugins before.
pub fn prev_result(request: &Request) -> Result<CniResult, Error> {
    request.prev_result()?.ok_or_else(|| {
        let text = "no previous result was found, was this plugin chained with a previous one?";
        fail!(InvalidConfig, "{text}", details: "{BEHIND}")
    })
}

/// The interface whose frames are redirected.
pub fn interface(ifname: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    host.link(Ns::Container, ifname)?.ok_or_else(|| {
        let name = ifname.as_str();
        let text = format!("did not find expected network device with name {name:?}");
        fail!(InvalidConfig, "failed to find redirect interface {name:?}: {text}", details: "{BEHIND}")
    })
}

/// The frames of an interface can go to one device only.
fn refuse_redirected(link: &Link, host: &mut dyn Host) -> Result<(), Error> {
    for index in pair::targets(Some(link), host)? {
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

/// The MTU of the device for an interface.
pub fn mtu(link: &Link) -> u32 {
    if link.mtu > MAX_MTU {
        log::warn!(
            "interface {} has MTU {}; its tap device gets {MAX_MTU}, the most that one can have",
            link.name,
            link.mtu
        );
    }
    link.mtu.min(MAX_MTU)
}

/// The device to be made.
struct NewDevice {
    name: IfName,
    mac: Mac,
    mtu: u32,
    tap: TapOptions,
    headers: TapHeaders,
}

/// The device has its alias before it is persistent, so DEL finds it after an ADD that was killed. Without an IPv6 address of its
/// own it sends nothing into the virtual machine. The filters on the device are deleted with it.
fn plan(at: &Attachment, device: &NewDevice) -> Plan {
    let NewDevice { name, mac, mtu, tap, headers } = device;
    let ns = Ns::Container;
    let kind = LinkKind::Tap { tap: *tap, label: None, headers: *headers, alias: Some(alias::of(at)) };
    let (mac, mtu, if_present) = (Some(mac.clone()), Some(*mtu), IfPresent::Refuse);
    let mut plan = Plan::default();
    plan.owned(Step::CreateLink { ns, link: NewLink { name: name.clone(), mac, mtu, if_present, kind } });
    let key = Sysctl::interface(Family::V6, name, "addr_gen_mode");
    plan.within(Step::SetSysctl { ns, key, value: "1".to_owned(), need: SysctlNeed::Wanted });
    plan.within(Step::set_link(ns, name, LinkSetting::Up));
    plan.within(redirect(name, &at.ifname));
    plan.owned(redirect(&at.ifname, name));
    plan
}

/// Sends all frames that one link receives out of another. Filters of others on the link come first.
pub fn redirect(from: &IfName, to: &IfName) -> Step {
    Step::AddRedirect { ns: Ns::Container, name: from.clone(), to: to.clone(), rank: FilterRank::Last }
}
