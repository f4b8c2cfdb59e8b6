//! The keys of the ipvlan plugin, checked before anything is done.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::child::MasterChoice;
use cni_interface::keys::{self, IpamKey};
use cni_model::plan::IpvlanMode;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What could not be done, for error messages.
pub const MAKING: &str = "create ipvlan";

/// A configuration that can be carried out, as far as it tells without a look at the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The link that it works by.
    pub master: MasterChoice,
    /// Where packets are routed.
    pub mode: IpvlanMode,
    /// MTU in bytes; that of the master if none.
    pub mtu: Option<u32>,
    /// The IPAM plugin; without one, the addresses are those of the plugin before.
    pub ipam: Option<String>,
    /// Name resolution, instead of that of the IPAM plugin or the plugin before.
    pub dns: Dns,
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

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        Ok(Self {
            master: MasterChoice::of_keys(keys.master, keys.link_in_container),
            mode: mode(&keys.mode)?,
            mtu: keys::mtu(keys.mtu)?,
            ipam: ipam(keys.ipam)?,
            dns: keys.dns,
        })
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
