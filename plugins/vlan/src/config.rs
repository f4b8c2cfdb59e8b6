//! The keys of the vlan plugin, checked before anything is done.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
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
            return Err(fail!(
                InvalidConfig,
                r#""master" field is required. It specifies the host interface name to create the VLAN for"#
            ));
        }
        Ok(Self {
            master,
            id: id(keys.vlan_id)?,
            mtu: keys.mtu,
            ipam: keys
                .ipam
                .plugin()
                .ok_or_else(|| fail!(InvalidConfig, "vlan interface requires an IPAM configuration"))?,
            dns: keys.dns,
        })
    }
}

fn id(id: i64) -> Result<u16, Error> {
    u16::try_from(id).ok().filter(|id| *id <= LAST).ok_or_else(|| {
        fail!(InvalidConfig, "invalid VLAN ID {id} (must be between 0 and {LAST} inclusive)", details: "vlanId is the number of a VLAN")
    })
}
