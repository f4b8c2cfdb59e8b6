//! The keys of the vlan plugin, checked before anything is done.

use std::collections::BTreeMap;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_core::result::Dns;
use cni_interface::child::MasterChoice;
use cni_interface::keys::IpamKey;
use cni_model::vlan::VlanId;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The operation in error messages.
pub const MAKING: &str = "create vlan";

/// The greatest number of a VLAN: 4095 is reserved by IEEE 802.1Q. 0 means frames that have a priority and no VLAN.
const LAST: u16 = VlanId::LAST.number();

/// A value that the plugin cannot use.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no `master`.
    #[error(r#""master" field is required. It specifies the host interface name to create the VLAN for"#)]
    NoMaster,
    /// `vlanId` is the number of no VLAN.
    #[error("invalid VLAN ID {id} (must be between 0 and {LAST} inclusive)")]
    Id { id: i64 },
    /// There is no IPAM plugin.
    #[error("vlan interface requires an IPAM configuration")]
    NoIpam,
}

impl Failure for ConfigError {
    fn code(&self) -> Code {
        match self {
            Self::NoMaster | Self::Id { .. } | Self::NoIpam => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Id { .. } => "vlanId is the number of a VLAN".to_owned(),
            Self::NoMaster | Self::NoIpam => String::new(),
        }
    }
}

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The master.
    pub master: MasterChoice,
    /// The number of the VLAN.
    pub id: u16,
    /// `mtu`, which the master bounds.
    pub mtu: i64,
    /// The IPAM plugin.
    pub ipam: String,
    /// Name resolution, instead of the IPAM plugin's.
    pub dns: Dns,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    master: String,
    vlan_id: i64,
    mtu: i64,
    link_in_container: bool,
    ipam: IpamKey,
    dns: Dns,
    /// Not used by ADD, but a runtime that sends something else than an object is not understood.
    prev_result: BTreeMap<String, IgnoredAny>,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let master = MasterChoice::of_keys(keys.master, keys.link_in_container);
        if master.name.is_none() {
            return Err(ConfigError::NoMaster.into());
        }
        Ok(Self {
            master,
            id: id(keys.vlan_id)?,
            mtu: keys.mtu,
            ipam: keys.ipam.plugin().ok_or(ConfigError::NoIpam)?,
            dns: keys.dns,
        })
    }
}

fn id(id: i64) -> Result<u16, ConfigError> {
    u16::try_from(id).ok().filter(|id| *id <= LAST).ok_or(ConfigError::Id { id })
}
