//! The keys of the macvlan plugin, checked before anything is done.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::child::MasterChoice;
use cni_interface::keys::{self, IpamKey, MacKey};
use cni_model::plan::MacvlanMode;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What could not be done, for error messages.
pub const MAKING: &str = "create macvlan";

/// A configuration that can be carried out, as far as it tells without a look at the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The link that it works by.
    pub master: MasterChoice,
    /// How the links on one master reach each other.
    pub mode: MacvlanMode,
    /// `mtu`, which the master bounds.
    pub mtu: i64,
    /// The MAC address that it is to have.
    pub mac: Option<Mac>,
    /// How many broadcast packets may wait, if not as many as usual.
    pub broadcast_queue: Option<u32>,
    /// The IPAM plugin; without one, the link has no address.
    pub ipam: Option<String>,
    /// Name resolution, instead of the IPAM plugin's.
    pub dns: Dns,
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

impl Config {
    /// Reads and checks every key, `CNI_ARGS` included.
    pub fn load(request: &Request) -> Result<Self, Error> {
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
