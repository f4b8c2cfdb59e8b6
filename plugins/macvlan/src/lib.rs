//! The macvlan plugin: a link inside the container, with its own MAC address, that sends and receives through an
//! interface of the host (or of the container), its master.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_core::request::Request;
use cni_core::result::{CniResult, Dns};
use cni_interface::child::{self, ChildConfig, ChildPlugin, MasterChoice};
use cni_interface::keys::{self, IpamKey, MacKey};
use cni_interface::naming;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, MacvlanMode};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The plugin.
pub const PLUGIN: ChildPlugin<Config> = ChildPlugin::NEW;

/// What could not be done, for error messages.
const MAKING: &str = "create macvlan";

/// A configuration that can be carried out, as far as it tells without a look at the master.
pub struct Config {
    master: MasterChoice,
    /// How the links on one master reach each other.
    mode: MacvlanMode,
    /// `mtu`, which the master bounds.
    mtu: i64,
    /// The MAC address that it is to have.
    mac: Option<Mac>,
    /// How many broadcast packets may wait, if not as many as usual.
    broadcast_queue: Option<u32>,
    /// The IPAM plugin; without one, the link has no address.
    ipam: Option<String>,
    /// Name resolution, instead of the IPAM plugin's.
    dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    master: String,
    mode: String,
    mtu: i64,
    mac: String,
    link_in_container: bool,
    #[serde(rename = "bcqueuelen")]
    broadcast_queue: u32,
    ipam: IpamKey,
    dns: Dns,
    runtime_config: MacKey,
    /// Not used by ADD, but a runtime that sends something else than an object is not understood.
    prev_result: BTreeMap<String, IgnoredAny>,
}

impl ChildConfig for Config {
    const TYPE: &'static str = "macvlan";

    /// Reads and checks every key, `CNI_ARGS` included.
    fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let mode = mode(&keys.mode)?;
        let given = [
            ("runtimeConfig.mac", keys.runtime_config.mac),
            ("CNI_ARGS MAC", request.args()?.mac.unwrap_or_default()),
            ("mac", keys.mac),
        ];
        Ok(Self {
            master: MasterChoice::of_keys(keys.master, keys.link_in_container),
            mode,
            mtu: keys.mtu,
            mac: mac_in(mode, keys::first_mac(MAKING, given)?)?,
            broadcast_queue: Some(keys.broadcast_queue).filter(|packets| *packets != 0),
            ipam: keys.ipam.plugin(),
            dns: keys.dns,
        })
    }

    fn ipam(&self) -> Option<&str> {
        self.ipam.as_deref()
    }

    fn add(self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        journal.host().enter(request.netns().unwrap_or_default())?;
        let master = self.master.find(journal.host())?;
        let mtu = child::within_master(self.mtu, &master)?;
        // The kernel's own choice would be changed by udev. In mode passthru it is that of the master.
        let is_masters = self.mode == MacvlanMode::Passthru;
        let mac = self.mac.or_else(|| (!is_masters).then(|| naming::random_mac(journal.host())));
        let kind = ChildKind::Macvlan { mode: self.mode, broadcast_queue: self.broadcast_queue };
        child::make(MAKING, self.master.child(&master, kind), mac, mtu, request, journal)?;
        let network = child::ask_ipam(self.ipam.as_deref(), &self.dns, request, journal)?;
        child::finish(network, child::NOTIFY, request, journal)
    }

    /// A changed default route, or a smaller MTU of the master, does not matter.
    fn compare(&self, link: &Link) -> Result<(), Error> {
        let wanted = self.mode;
        match link.child {
            Some(ChildKind::Macvlan { mode: found, .. }) if found != wanted => {
                Err(fail!(CheckFailed, "container macvlan mode {found} does not match expected value: {wanted}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn require_parts(&self, host: &mut dyn Host) -> Result<(), Error> {
        self.master.require(Self::LINK, host)
    }
}

fn mode(word: &str) -> Result<MacvlanMode, Error> {
    match word {
        "" | "bridge" => Ok(MacvlanMode::Bridge),
        "private" => Ok(MacvlanMode::Private),
        "vepa" => Ok(MacvlanMode::Vepa),
        "passthru" => Ok(MacvlanMode::Passthru),
        mode => Err(fail!(
            InvalidConfig,
            "unknown macvlan mode: {mode:?}",
            details: "mode is one of bridge, private, vepa and passthru"
        )),
    }
}

/// The kernel takes the address in mode passthru, and does not use it.
fn mac_in(mode: MacvlanMode, mac: Option<Mac>) -> Result<Option<Mac>, Error> {
    match mac {
        Some(mac) if mode == MacvlanMode::Passthru => Err(fail!(
            InvalidConfig,
            "failed to {MAKING}: mac {mac} cannot be set in mode passthru, in which the link has that of its master"
        )),
        other => Ok(other),
    }
}
