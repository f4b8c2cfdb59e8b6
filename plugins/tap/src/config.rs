//! The keys of the tap plugin, checked before anything is done.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::keys::{self, IpamKey, MacKey};
use cni_model::plan::{TapOptions, TapQueues};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The operation in error messages.
pub const MAKING: &str = "create tap";

/// The smallest and the largest MTU that the kernel accepts: `MIN_MTU` and `MAX_MTU` of `drivers/net/tun.c`, less an
/// Ethernet header.
const MTU: std::ops::RangeInclusive<i64> = 68..=65521;

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The users and queues of the device.
    pub tap: TapOptions,
    /// The SELinux label of its maker.
    pub label: Option<String>,
    /// Its MTU in bytes; 1500 if none.
    pub mtu: Option<u32>,
    /// The MAC address that it is to have.
    pub mac: Option<Mac>,
    /// The bridge in the container that it is to be a port of.
    pub bridge: Option<IfName>,
    /// The IPAM plugin; without one, the device has no address.
    pub ipam: Option<String>,
    /// Name resolution, instead of the IPAM plugin's.
    pub dns: Dns,
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

impl Config {
    /// Reads and checks every key, `CNI_ARGS` included.
    pub fn load(request: &Request) -> Result<Self, Error> {
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
