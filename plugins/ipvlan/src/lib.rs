//! The ipvlan plugin: a link inside the container that shares the MAC address of an interface of the host (or of the
//! container), its master. The kernel assigns packets to links by IP address.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_interface::child::{self, ChildConfig, ChildPlugin, MasterChoice};
use cni_interface::keys::{self, IpamKey};
use cni_model::link::Link;
use cni_model::plan::{ChildKind, IpvlanMode, Ns};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::journal::Journal;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The plugin.
pub const PLUGIN: ChildPlugin<Config> = ChildPlugin::NEW;

/// What could not be done, for error messages.
const MAKING: &str = "create ipvlan";

/// A configuration that can be carried out, as far as it tells without a look at the master.
pub struct Config {
    master: MasterChoice,
    /// Where packets are routed.
    mode: IpvlanMode,
    /// MTU in bytes; that of the master if none.
    mtu: Option<u32>,
    /// The IPAM plugin; without one, the addresses are those of the plugin before.
    ipam: Option<String>,
    /// Name resolution, instead of that of the IPAM plugin or the plugin before.
    dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    master: String,
    mode: String,
    mtu: i64,
    link_in_container: bool,
    ipam: IpamKey,
    dns: Dns,
    /// That it is an object; what it says is asked of the request.
    prev_result: BTreeMap<String, IgnoredAny>,
}

impl ChildConfig for Config {
    const TYPE: &'static str = "ipvlan";

    fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        Ok(Self {
            master: MasterChoice::of_keys(keys.master, keys.link_in_container),
            mode: mode(&keys.mode)?,
            mtu: keys::mtu(keys.mtu)?,
            ipam: ipam(keys.ipam)?,
            dns: keys.dns,
        })
    }

    fn ipam(&self) -> Option<&str> {
        self.ipam.as_deref()
    }

    fn add(self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let previous = request.prev_result()?;
        if self.ipam.is_none() && previous.as_ref().is_none_or(|result| result.ips.is_empty()) {
            return Err(fail!(
                InvalidConfig,
                "ipvlan interface requires an IPAM configuration, or a prevResult with addresses"
            ));
        }
        let choice = master_choice(&self.master, previous.as_ref())?;
        journal.host().enter(request.netns().unwrap_or_default())?;
        let master = choice.find(journal.host())?;
        refuse_other_mode(self.mode, choice.ns, &master, journal.host())?;
        // The kernel takes it, as the reference does.
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu > master.mtu) {
            let (name, least) = (&master.name, master.mtu);
            log::warn!("mtu {mtu} is more than that of master {name}, {least}, which drops such packets");
        }
        let kind = choice.child(&master, ChildKind::Ipvlan { mode: self.mode });
        child::make(MAKING, kind, None, self.mtu, request, journal)?;
        let network = match previous {
            Some(result) if self.ipam.is_none() => child::resolve(result, &self.dns)?,
            Some(_) | None => child::ask_ipam(self.ipam.as_deref(), &self.dns, request, journal)?,
        };
        child::finish(network, child::NOTIFY, request, journal)
    }

    fn compare(&self, link: &Link) -> Result<(), Error> {
        let wanted = self.mode;
        match link.child {
            Some(ChildKind::Ipvlan { mode: found }) if found != wanted => {
                Err(fail!(CheckFailed, "Container IPVlan mode {found} does not match expected value: {wanted}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn require_parts(&self, host: &mut dyn Host) -> Result<(), Error> {
        self.master.require(Self::LINK, host)
    }
}

fn mode(word: &str) -> Result<IpvlanMode, Error> {
    match word {
        "" | "l2" => Ok(IpvlanMode::L2),
        "l3" => Ok(IpvlanMode::L3),
        "l3s" => Ok(IpvlanMode::L3s),
        mode => Err(fail!(InvalidConfig, "unknown ipvlan mode: {mode:?}", details: "mode is one of l2, l3 and l3s")),
    }
}

/// A DHCP server knows its clients by their MAC addresses.
fn ipam(key: IpamKey) -> Result<Option<String>, Error> {
    match key.plugin() {
        Some(plugin) if plugin == "dhcp" => Err(fail!(
            InvalidConfig,
            "ipam.type dhcp cannot be used with ipvlan, whose links all have the MAC address of their master"
        )),
        other => Ok(other),
    }
}

/// Behind another plugin, the master is the one interface that it tells, unless the configuration names one.
fn master_choice(choice: &MasterChoice, previous: Option<&CniResult>) -> Result<MasterChoice, Error> {
    let (None, Some(result)) = (&choice.name, previous) else { return Ok(choice.clone()) };
    let names: Vec<String> = result.interfaces.iter().map(|interface| interface.name.clone()).collect();
    match &names[..] {
        [name] if !name.is_empty() => Ok(MasterChoice { name: Some(name.clone()), ..choice.clone() }),
        _ => Err(fail!(
            InvalidConfig,
            "chained master failure. PrevResult lacks a single named interface",
            details: "it has {names:?}, and master is not given"
        )),
    }
}

/// The kernel keeps the mode with the master, and lets every new link set it for all of them.
fn refuse_other_mode(wanted: IpvlanMode, ns: Ns, master: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let kind = Config::LINK;
    let found = host.links(ns, LinkQuery::ChildOf { master: master.index, kind })?.pop();
    match found.and_then(|link| link.child) {
        Some(ChildKind::Ipvlan { mode: found }) if found != wanted => {
            let text = format!("{} has links in mode {found} already, which mode {wanted} would change", master.name);
            let details = "all ipvlan links of a master have the same mode";
            Err(fail!(Conflict, "failed to {MAKING}: {text}", details: "{details}"))
        }
        Some(_) | None => Ok(()),
    }
}
