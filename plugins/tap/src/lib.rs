//! The tap plugin: a device in the container through which a program, such as a virtual machine, sends and receives
//! Ethernet frames.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_interface::addressing::InterfaceParameter;
use cni_interface::child::{self, ChildConfig, ChildPlugin};
use cni_interface::keys::{self, IpamKey, MacKey};
use cni_interface::{naming, verify};
use cni_model::link::Link;
use cni_model::plan::{LinkKind, LinkSetting, Ns, Plan, Step, TapHeaders, TapOptions, TapQueues};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The plugin.
pub const PLUGIN: ChildPlugin<Config> = ChildPlugin::NEW;

/// The operation in error messages.
const MAKING: &str = "create tap";

/// The smallest and the largest MTU that the kernel accepts: `MIN_MTU` and `MAX_MTU` of `drivers/net/tun.c`, less an
/// Ethernet header.
const MTU: RangeInclusive<i64> = 68..=65521;

/// By which neighbours that know an address by another MAC address learn of the new one.
const NOTIFY: &[InterfaceParameter] = &[InterfaceParameter { family: Family::V4, parameter: "arp_notify", value: "1" }];

/// The checked configuration.
pub struct Config {
    /// The users and queues of the device.
    tap: TapOptions,
    /// The SELinux label of its maker.
    label: Option<String>,
    /// Its MTU in bytes; 1500 if none.
    mtu: Option<u32>,
    /// The MAC address that it is to have.
    mac: Option<Mac>,
    /// The bridge in the container that it is to be a port of.
    bridge: Option<IfName>,
    /// The IPAM plugin; without one, the device has no address.
    ipam: Option<String>,
    /// Name resolution, instead of the IPAM plugin's.
    dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    owner: Option<u32>,
    group: Option<u32>,
    multi_queue: bool,
    mtu: i64,
    mac: String,
    #[serde(rename = "selinuxContext")]
    selinux_context: String,
    bridge: String,
    ipam: IpamKey,
    dns: Dns,
    runtime_config: MacKey,
    /// Not used, but a runtime that sends something else than an object is not understood.
    args: BTreeMap<String, IgnoredAny>,
    /// Likewise.
    prev_result: BTreeMap<String, IgnoredAny>,
}

impl ChildConfig for Config {
    const TYPE: &'static str = "tap";
    const LINK: &'static str = "tun";

    /// Reads and checks every key, `CNI_ARGS` included.
    fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let given = [
            ("runtimeConfig.mac", keys.runtime_config.mac),
            ("CNI_ARGS MAC", request.args()?.mac.unwrap_or_default()),
            ("mac", keys.mac),
        ];
        let queues = if keys.multi_queue { TapQueues::Many } else { TapQueues::One };
        Ok(Self {
            tap: TapOptions { owner: somebody("owner", keys.owner)?, group: somebody("group", keys.group)?, queues },
            label: label(keys.selinux_context)?,
            mtu: mtu(keys.mtu)?,
            mac: keys::first_mac(MAKING, given)?,
            bridge: bridge(keys.bridge)?,
            ipam: keys.ipam.plugin(),
            dns: keys.dns,
        })
    }

    fn ipam(&self) -> Option<&str> {
        self.ipam.as_deref()
    }

    fn add(self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let name = request.attachment()?.ifname;
        naming::refuse_pattern(MAKING, &name)?;
        journal.host().enter(request.netns().unwrap_or_default())?;
        naming::refuse_taken(MAKING, &name, journal.host())?;
        if let Some(bridge) = &self.bridge {
            require_bridge(bridge, journal.host())?;
        }
        let mac = self.mac.unwrap_or_else(|| naming::random_mac(journal.host()));
        let kind = LinkKind::Tap { tap: self.tap, label: self.label, headers: TapHeaders::None, alias: None };
        let mut plan = Plan::default();
        plan.owned(naming::create(name.clone(), kind, Some(mac), self.mtu));
        if let Some(bridge) = self.bridge {
            plan.within(Step::set_link(Ns::Container, &name, LinkSetting::Master(bridge)));
        }
        journal.apply(&plan)?;
        let network = child::ask_ipam(self.ipam.as_deref(), &self.dns, request, journal)?;
        child::finish(network, NOTIFY, request, journal)
    }

    /// Kernels before 4.17 do not report the properties of a device.
    fn compare(&self, link: &Link) -> Result<(), Error> {
        let (name, wanted) = (&link.name, self.tap);
        match link.tap {
            Some(found) if found != wanted => Err(fail!(CheckFailed, "interface {name} is {found}, and not {wanted}")),
            Some(_) | None => Ok(()),
        }
    }

    fn compare_network(&self, result: &CniResult, link: &Link, host: &mut dyn Host) -> Result<(), Error> {
        verify::addresses_and_routes(result, link, host)?;
        let Some(bridge) = &self.bridge else { return Ok(()) };
        let is_port = host.link(Ns::Container, bridge)?.is_some_and(|bridge| link.master == Some(bridge.index));
        let tap = &link.name;
        if is_port { Ok(()) } else { Err(fail!(CheckFailed, "tap {tap} is not a port of bridge {bridge}")) }
    }

    fn require_parts(&self, host: &mut dyn Host) -> Result<(), Error> {
        let devices = host.devices().entries(Path::new("/dev/net"))?.unwrap_or_default();
        if devices.iter().any(|name| name == "tun") {
            return Ok(());
        }
        Err(fail!(NotAvailable, "/dev/net/tun does not exist, load the module tun"))
    }
}

fn somebody(key: &'static str, id: Option<u32>) -> Result<Option<u32>, Error> {
    match id {
        Some(id @ u32::MAX) => Err(fail!(InvalidConfig, "invalid {key} {id} (the number means nobody)")),
        other => Ok(other),
    }
}

fn mtu(mtu: i64) -> Result<Option<u32>, Error> {
    match u32::try_from(mtu) {
        Ok(0) => Ok(None),
        Ok(bytes) if MTU.contains(&mtu) => Ok(Some(bytes)),
        Ok(_) | Err(_) => {
            let (least, most) = (MTU.start(), MTU.end());
            Err(fail!(InvalidConfig, "invalid mtu {mtu} (must be between {least} and {most})"))
        }
    }
}

fn label(label: String) -> Result<Option<String>, Error> {
    if label.contains('\0') {
        return Err(fail!(InvalidConfig, "invalid selinuxContext {label:?} (must not hold a zero byte)"));
    }
    Ok(Some(label).filter(|it| !it.is_empty()))
}

fn bridge(bridge: String) -> Result<Option<IfName>, Error> {
    if bridge.is_empty() {
        return Ok(None);
    }
    let parsed = IfName::parse(&bridge).map(Some);
    parsed.map_err(|error| fail!(InvalidConfig, "invalid bridge {bridge:?}", details: "{error}"))
}

/// Requires a bridge of this name in the container.
fn require_bridge(name: &IfName, host: &mut dyn Host) -> Result<(), Error> {
    let found = host.link(Ns::Container, name)?;
    let link = found.ok_or_else(|| fail!(InvalidConfig, "failed to get bridge {name}: Link not found"))?;
    if link.kind.as_deref() == Some("bridge") {
        return Ok(());
    }
    let kind = link.kind.map_or_else(|| "no bridge".to_owned(), |kind| format!("of kind {kind}"));
    Err(fail!(InvalidConfig, "failed to set tap as a port of bridge {name}: it is {kind}"))
}
