//! The keys of the tuning plugin from all sources, checked before anything is done.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::mac::Mac;
use cni_core::names::{Attachment, IfName, hash_hex};
use cni_core::request::Request;
use cni_interface::keys::{MacKey, first_mac};
use cni_model::link::Link;
use cni_model::plan::{LinkSetting, Ns, Step};
use cni_model::state_file::{LONGEST_NAME, StateFile, StateFileError};
use serde::Deserialize;

use crate::sysctl::{Parameter, SysctlKeys, merge};

/// The default directory of state files, as in the reference.
const DATA_DIR: &str = "/run/cni/tuning";

/// The kernel keeps an MTU as a signed number; a queue of so many packets is as good as endless.
const MOST: i64 = i32::MAX as i64;

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Kernel parameters, in the order of the document.
    pub parameters: Vec<Parameter>,
    /// Properties of the interface.
    pub wanted: Properties,
    /// The directory of the state file as it is written; empty for the reference's.
    pub data_dir: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    sysctl: SysctlKeys,
    mac: String,
    promisc: bool,
    mtu: i64,
    allmulti: Option<bool>,
    #[serde(rename = "txQLen")]
    tx_queue_length: Option<i64>,
    data_dir: String,
    args: TuningArgs,
    runtime_config: MacKey,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TuningArgs {
    cni: ArgKeys,
}

/// Keys that override all others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ArgKeys {
    sysctl: SysctlKeys,
    mac: Option<String>,
    promisc: Option<bool>,
    mtu: Option<i64>,
    allmulti: Option<bool>,
    #[serde(rename = "txQLen")]
    tx_queue_length: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TuningDataDirKey {
    data_dir: String,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let args = keys.args.cni;
        let from_env = request.args()?.mac.unwrap_or_default();
        let mac = mac(args.mac, keys.runtime_config.mac, from_env, keys.mac)?;
        let tx_queue_length = args.tx_queue_length.or(keys.tx_queue_length);
        let wanted = Properties {
            mac,
            promisc: Some(args.promisc.unwrap_or(keys.promisc)).filter(|wanted| *wanted),
            mtu: Some(number("mtu", args.mtu.unwrap_or(keys.mtu))?).filter(|mtu| *mtu != 0),
            all_multicast: args.allmulti.or(keys.allmulti),
            tx_queue_length: tx_queue_length.map(|length| number("txQLen", length)).transpose()?,
        };
        let parameters = merge(keys.sysctl.parse()?, args.sysctl.parse()?);
        let config = Self { parameters, wanted, data_dir: keys.data_dir };
        backup_in(&config.data_dir, "any", "any").map_err(no_directory)?;
        Ok(config)
    }

    /// The state file with the former properties.
    pub fn backup(&self, at: &Attachment) -> Result<StateFile, Error> {
        backup_in(&self.data_dir, at.container.as_str(), at.ifname.as_str()).map_err(no_directory)
    }

    /// Whether nothing changes, as with the lists that podman and nerdctl write.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.wanted.is_empty()
    }
}

fn no_directory(error: StateFileError) -> Error {
    fail!(InvalidConfig, "invalid dataDir", details: "{error}")
}

/// The state file of ADD, even if the configuration has become invalid since, or names another directory than the record.
pub fn backup_for_del(request: &Request, at: &Attachment, recorded: Option<&str>) -> Result<StateFile, StateFileError> {
    let backup = |directory: &str| backup_in(directory, at.container.as_str(), at.ifname.as_str());
    if let Some(Ok(file)) = recorded.map(backup) {
        return Ok(file);
    }
    let TuningDataDirKey { data_dir } = request.decode().unwrap_or_else(|error| {
        log::warn!("dataDir is taken for {DATA_DIR}: {}", error.in_full());
        TuningDataDirKey::default()
    });
    backup(&data_dir).or_else(|error| {
        log::warn!("dataDir is taken for {DATA_DIR}: {error}");
        backup(DATA_DIR)
    })
}

/// The file of an interface in a directory; the reference's if that is empty. So is the name, but where the reference fails
/// since no file can have it.
pub fn backup_in(directory: &str, container: &str, ifname: &str) -> Result<StateFile, StateFileError> {
    let directory = if directory.is_empty() { DATA_DIR } else { directory };
    let name = format!("{container}_{ifname}.json");
    if name.len() <= LONGEST_NAME {
        return StateFile::new(directory, &name);
    }
    StateFile::new(directory, &format!("{}_{ifname}.json", hash_hex(container)))
}

/// An empty text in `args.cni` switches the change off; elsewhere it is as good as nothing.
fn mac(from_args: Option<String>, from_runtime: String, from_env: String, own: String) -> Result<Option<Mac>, Error> {
    let given = match from_args {
        Some(mac) => [("args.cni.mac", mac), ("", String::new()), ("", String::new())],
        None => [("runtimeConfig.mac", from_runtime), ("MAC in CNI_ARGS", from_env), ("mac", own)],
    };
    first_mac("set the MAC address", given)
}

fn number(key: &'static str, value: i64) -> Result<u32, Error> {
    let refused = || fail!(InvalidConfig, "invalid {key} {value} (must be between 0 and {MOST})");
    u32::try_from(value).ok().filter(|_| value <= MOST).ok_or_else(refused)
}

/// The properties of an interface that the plugin sets, configured or former ones: each with its value if it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub mac: Option<Mac>,
    /// `IFF_PROMISC`: what the administrator asks for. Packet sniffers are not counted.
    pub promisc: Option<bool>,
    /// In bytes.
    pub mtu: Option<u32>,
    /// `IFF_ALLMULTI`
    pub all_multicast: Option<bool>,
    /// In packets.
    pub tx_queue_length: Option<u32>,
}

impl Properties {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those of a link that `wanted` would change.
    pub fn before(link: &Link, wanted: &Self) -> Self {
        Self {
            mac: wanted.mac.as_ref().and(link.mac.clone()),
            promisc: wanted.promisc.map(|_| link.promisc),
            mtu: wanted.mtu.map(|_| link.mtu),
            all_multicast: wanted.all_multicast.map(|_| link.all_multicast),
            tx_queue_length: wanted.tx_queue_length.map(|_| link.tx_queue_length),
        }
    }

    /// These properties, and the missing ones from `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            mac: self.mac.or(others.mac),
            promisc: self.promisc.or(others.promisc),
            mtu: self.mtu.or(others.mtu),
            all_multicast: self.all_multicast.or(others.all_multicast),
            tx_queue_length: self.tx_queue_length.or(others.tx_queue_length),
        }
    }

    /// The values, in the reference's order.
    pub fn texts(&self) -> [Option<String>; 5] {
        let Self { mac, promisc, mtu, all_multicast, tx_queue_length } = self;
        [
            mac.as_ref().map(ToString::to_string),
            promisc.map(|on| on.to_string()),
            mtu.map(|mtu| mtu.to_string()),
            all_multicast.map(|on| on.to_string()),
            tx_queue_length.map(|packets| packets.to_string()),
        ]
    }

    /// The steps of ADD, in the reference's order.
    pub fn steps(&self, name: &IfName) -> Vec<Step> {
        let Self { mac, promisc, mtu, all_multicast, tx_queue_length } = self.clone();
        let settings = [
            mac.map(LinkSetting::Mac),
            promisc.map(LinkSetting::Promisc),
            mtu.map(LinkSetting::Mtu),
            all_multicast.map(LinkSetting::AllMulticast),
            tx_queue_length.map(LinkSetting::TxQueueLength),
        ];
        settings.into_iter().flatten().map(|setting| Step::set_link(Ns::Container, name, setting)).collect()
    }
}

#[cfg(test)]
mod tests;
